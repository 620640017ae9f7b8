# SPDX-License-Identifier: BSD-3-Clause
"""QEMU as the newest release of Debian has it, for NICs that the installed one doesn't emulate. It is unpacked into the cache folder; nothing is installed.

It wants a newer C library, so it runs with the loader and the libraries of its own release, as programs of tests/verbs/programs.py do.
"""

import glob
import os
import shutil
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), '../kernels'))

import packages  # noqa: E402

RELEASE, PACKAGE = 'trixie', 'qemu-system-x86'
LIBRARIES = 'usr/lib/x86_64-linux-gnu'
COMMAND = 'qemu'
# QEMU's modules are of the same build as itself. It doesn't look for its files beside itself.
SCRIPT = """#!/bin/sh
QEMU_MODULE_DIR={root}/{libraries}/qemu exec {root}/{libraries}/ld-linux-x86-64.so.2 --library-path {root}/{libraries} \\
	{root}/usr/bin/qemu-system-x86_64 -L {root}/usr/share/qemu -L {root}/usr/share/seabios "$@"
"""


def download(target):
    with tempfile.TemporaryDirectory(prefix='uroce-qemu-') as folder:
        apt = packages.Apt(folder, RELEASE)
        apt.run('apt-get', 'update', '--error-on=any')
        # apt's own list of what is installed is empty: it downloads all libraries, too.
        apt.run('apt-get', 'install', '-y', '--download-only', '--no-install-recommends', PACKAGE)
        for archive in glob.glob(os.path.join(folder, 'cache/archives/*.deb')):
            packages.command('dpkg-deb', '-x', archive, target)


def program():
    """@return the command that runs it, downloaded if the cache folder has none; packages.NoPackage if it can't be had."""
    base = os.path.join(os.path.dirname(packages.cache_dir()), 'qemu')
    root = os.path.join(base, RELEASE)
    command = os.path.join(root, COMMAND)
    os.makedirs(base, exist_ok=True)
    with packages.locked(base):
        if os.path.exists(command):
            return command
        if not os.path.exists(packages.KEYRING):
            raise packages.NoPackage(f'no {packages.KEYRING}: as root, apt-get install debian-archive-keyring')
        with tempfile.TemporaryDirectory(prefix=RELEASE, dir=base) as new:
            download(new)
            with open(os.path.join(new, COMMAND), 'w', encoding='utf-8') as f:
                f.write(SCRIPT.format(root=root, libraries=LIBRARIES))
            os.chmod(os.path.join(new, COMMAND), 0o755)
            os.chmod(new, 0o755)
            shutil.rmtree(root, ignore_errors=True)
            os.rename(new, root)
            os.mkdir(new)       # for TemporaryDirectory to remove
    return command
