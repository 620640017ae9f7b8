# SPDX-License-Identifier: BSD-3-Clause
"""Where the programs of a lab are: in a build folder, or where `meson install` put them."""

import json
import os

from . import LabError

# The folder of uroce-lab, lib.sh and this package.
SCRIPTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(SCRIPTS)
# Written by meson (scripts/meson.build); paths relative to SCRIPTS, so that an installation can be moved as a whole.
INSTALLED = os.path.join(SCRIPTS, 'places.json')
IN_BUILD = {'uroced': 'app/uroced/uroced', 'uroce-run': 'app/uroce-run/uroce-run', 'uroce_xdp.o': 'lib/net/uroce_xdp.o'}
PROGRAMS = ('uroced', 'uroce-run')


def build_dir():
    """$UROCE_BUILD, or build/, where scripts/quickstart builds."""
    build = os.path.abspath(os.environ.get('UROCE_BUILD') or os.path.join(ROOT, 'build'))
    for program in PROGRAMS:
        if not os.access(os.path.join(build, IN_BUILD[program]), os.X_OK):
            raise LabError(f'{build} has no {program}: build it (meson setup build && ninja -C build), '
                           'or set UROCE_BUILD to where it was built')
    return build


def installed():
    """@return whether to use installed programs: if this is an installation and UROCE_BUILD is not set."""
    return os.path.exists(INSTALLED) and not os.environ.get('UROCE_BUILD')


def find():
    """@return {name: path} for each of IN_BUILD. uroce_xdp.o may be missing: only af_xdp needs it."""
    if not installed():
        build = build_dir()
        return {name: os.path.join(build, path) for name, path in IN_BUILD.items()}
    with open(INSTALLED, encoding='utf-8') as f:
        found = {name: os.path.normpath(os.path.join(SCRIPTS, path)) for name, path in json.load(f).items()}
    for program in PROGRAMS:
        if not os.access(found[program], os.X_OK):
            raise LabError(f'{found[program]} is not there: the installation that {SCRIPTS} belongs to is not whole')
    return found
