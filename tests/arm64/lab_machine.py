# SPDX-License-Identifier: BSD-3-Clause
"""An emulated arm64 machine with Debian's kernel for it, in which lab_inside.py runs a lab.

Its / is a folder into which mmdebstrap unpacks Debian's packages for arm64; nothing in it is run before the machine is. The tree, with the build
folder in it, is mounted there. That mount ends with the mount namespace that `scripts/test --arch arm64` makes.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, '../..'))
sys.path[:0] = [os.path.join(HERE, '../kernels'), os.path.join(HERE, '../interop'), os.path.join(HERE, '../../scripts')]

import lab_inside  # noqa: E402
import machine  # noqa: E402
import packages  # noqa: E402
from uroce_lab.pairs import print_table  # noqa: E402

# What starts the machine and a lab. The libraries are those that the build needs, by the names of its packages (scripts/lib.sh).
PROGRAMS = ('bash', 'busybox-static', 'coreutils', 'dash', 'ethtool', 'ibverbs-utils', 'iproute2', 'mount', 'perftest', 'python3', 'util-linux')
LEFT_OUT = ('*.a', '/usr/include/*', '/usr/share/*')
LISTED = 'uroce-packages'           # in /etc: what was unpacked
MACHINE_SECONDS = 1800


def libraries():
    """@return the packages with libraries that the build needs"""
    listed = subprocess.run(['bash', '-c', '. "$0/scripts/lib.sh"; echo $UROCE_PACKAGES_BUILD', ROOT], stdout=subprocess.PIPE, text=True, check=True)
    return [name for name in listed.stdout.split() if name.startswith('lib') and name.endswith('-dev')]


def unpacked(suite):
    """@return a folder with the machine's programs and libraries, unpacked if there is none with all of them; packages.NoPackage"""
    wanted = sorted({*PROGRAMS, *libraries()})
    folder = os.path.join(os.path.dirname(packages.cache_dir()), f'guest-{suite}-{packages.ARM64}')
    try:
        with open(os.path.join(folder, 'etc', LISTED), encoding='ascii') as f:
            if f.read().split() == wanted:
                return folder
    except FileNotFoundError:
        pass
    shutil.rmtree(folder, ignore_errors=True)
    packages.command('mmdebstrap', '--quiet', '--variant=extract', f'--architectures={packages.ARM64}', '--include=' + ','.join(wanted),
                     '--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr', *(f'--dpkgopt=path-exclude={pattern}' for pattern in LEFT_OUT),
                     suite, folder, packages.mirror())
    for name in ('proc', 'sys', 'dev', 'run', 'root', 'uroce'):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    for name, text in (('passwd', 'root:x:0:0:root:/root:/bin/sh\n'), ('group', 'root:x:0:\n'), (LISTED, '\n'.join(wanted) + '\n')):
        with open(os.path.join(folder, 'etc', name), 'w', encoding='ascii') as f:
            f.write(text)
    return folder


class Results:
    """What the machine's lines say."""

    def __init__(self):
        self.about = {}
        self.found = {}
        self.nb_tests = 0
        self.problems = []
        self.ended = False

    def take(self, line):
        try:
            said = json.loads(line)
        except ValueError:
            self.problems.append(line)
            return
        if 'error' in said:
            print(f'{said["arrangement"]}: FAILED: {said["error"]}', flush=True)
            self.problems.append(f'{said["arrangement"]}: {said["error"]}')
        elif 'program' in said:
            print(f'{said["program"]}, {said["arrangement"]}: {said["result"]}', flush=True)
            self.found[said['program'], said['arrangement']] = said['result']
        elif 'test' in said:
            print(f'{said["test"]}: {said["failed"] or "ok"}', flush=True)
            self.nb_tests += 1
            if said['failed']:
                self.problems.append('\n'.join([f'{said["test"]}: {said["failed"]}', *said['said']]))
        elif 'ended' in said:
            self.ended = True
        else:
            self.about = said

    def rows(self):
        for program in (*lab_inside.PROGRAMS, 'verify'):
            yield [program, *(self.found.get((program, name), 'FAILED') for name in lab_inside.ARRANGEMENTS)]


def run(build, tests):
    """
    Run a lab or unit tests in a machine.

    @param tests  name, command, environment and seconds of each; none: a lab
    @return whether everything was right
    """
    began = time.monotonic()
    suite = packages.own_suite()
    kernel = packages.kernel(suite, packages.ARM64)
    root = unpacked(suite)
    subprocess.run(['mount', '--rbind', ROOT, os.path.join(root, 'uroce')], check=True)
    there = os.path.join('/uroce', os.path.relpath(build, ROOT))
    with open(os.path.join(build, lab_inside.TESTS), 'w', encoding='utf-8') as f:
        json.dump(tests, f)
    results = Results()
    with tempfile.TemporaryDirectory(prefix='uroce-arm64-') as folder:
        started = time.monotonic()
        vm = machine.Machine(kernel, folder, '/uroce/tests/arm64/lab_inside.py', there, processor=machine.ARM64, root=root, seconds=MACHINE_SECONDS)
        try:
            for line in vm.lines():
                results.take(line)
        finally:
            vm.stop()
        ended = time.monotonic()
        print(f'{results.about.get("processor", "no processor")}, Linux {kernel.version}, {machine.CPUS} emulated CPUs: {ended - started:.0f} s; '
              f'packages before that: {started - began:.0f} s')
        rows = [] if tests else list(results.rows())
        if rows:
            print_table(('program', *lab_inside.ARRANGEMENTS), rows)
        for problem in results.problems:
            print(f'FAILED {problem}')
        if not results.ended:
            print(f'FAILED: the machine ended before its program did. The end of its console:\n{vm.tail()}')
    sys.stdout.flush()
    return results.ended and not results.problems and results.nb_tests == len(tests) and 'FAILED' not in sum(rows, [])
