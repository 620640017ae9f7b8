# SPDX-License-Identifier: BSD-3-Clause
"""Debian's verbs programs as another release has them, unpacked into the cache folder. Nothing is installed.

Programs of an older release run with this machine's libraries, as they do after an upgrade. Those of a newer release want a newer C library,
so they run with the loader and the libraries of their own release, as they do in a container.
"""

import contextlib
import glob
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, '../kernels'))

import packages  # noqa: E402

RELEASES = ('bookworm', 'trixie')       # the older one first
PROGRAMS = ('perftest', 'ibverbs-utils')
# What they are linked with, but for libibverbs and librdmacm.
LIBRARIES = ('ibverbs-providers', 'libc6', 'libcap2', 'libnl-3-200', 'libnl-route-3-200', 'libpci3', 'libudev1', 'zlib1g', 'libbsd0', 'libmd0')
WANTED = ' '.join(PROGRAMS + LIBRARIES)
LOADER = 'ld-linux-x86-64.so.2'
SCRIPT = """#!/bin/sh
exec {loader} --library-path "$LD_LIBRARY_PATH:{libraries}" {program} "$@"
"""


def other_release():
    """@return the release that this machine doesn't have"""
    own = packages.own_suite()
    if own not in RELEASES:
        raise packages.NoPackage(f'this machine has {own}, which is none of {", ".join(RELEASES)}')
    return next(release for release in RELEASES if release != own)


def download(release, target):
    with tempfile.TemporaryDirectory(prefix='uroce-programs-') as folder:
        apt = packages.Apt(folder, release)
        apt.run('apt-get', 'update', '--error-on=any')
        apt.run('apt-get', 'download', *PROGRAMS, *LIBRARIES)
        for archive in glob.glob(os.path.join(folder, '*.deb')):
            packages.command('dpkg-deb', '-x', archive, target)
    with open(os.path.join(target, 'wanted'), 'w', encoding='ascii') as f:
        f.write(WANTED)


def root_folder(release):
    """@return the folder in which the release's packages are unpacked; NoPackage if they can't be had"""
    base = os.path.join(os.path.dirname(packages.cache_dir()), 'programs')
    target = os.path.join(base, release)
    os.makedirs(base, exist_ok=True)
    with packages.locked(base):
        with contextlib.suppress(FileNotFoundError), open(os.path.join(target, 'wanted'), encoding='ascii') as f:
            if f.read() == WANTED:
                return target
        if not os.path.exists(packages.KEYRING):
            raise packages.NoPackage(f'no {packages.KEYRING}: as root, apt-get install debian-archive-keyring')
        with tempfile.TemporaryDirectory(prefix=release, dir=base) as new:
            download(release, new)
            os.chmod(new, 0o755)
            shutil.rmtree(target, ignore_errors=True)
            os.rename(new, target)
            os.mkdir(new)       # for TemporaryDirectory to remove
    return target


def make_commands(release, folder):
    """Put a command into `folder` for each program of the release; it runs the program as the top of this file says."""
    root = root_folder(release)
    newer = RELEASES.index(release) > RELEASES.index(packages.own_suite())
    libraries = os.path.join(root, 'usr/lib/x86_64-linux-gnu')
    for program in glob.glob(os.path.join(root, 'usr/bin/ib*')):
        command = os.path.join(folder, os.path.basename(program))
        if newer:
            with open(command, 'w', encoding='utf-8') as f:
                f.write(SCRIPT.format(loader=os.path.join(libraries, LOADER), libraries=libraries, program=program))
            os.chmod(command, 0o755)
        else:
            os.symlink(program, command)
