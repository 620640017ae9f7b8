#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""examples/embed moves its bytes on one lcore and on two, on one core and as an ordinary user; it refuses wrong arguments, and
its Makefile builds it by pkg-config alone.

test_embed.py EMBED EXAMPLE_FOLDER UNINSTALLED_PKGCONFIG_FOLDER
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

EMBED = EXAMPLE = PKGCONFIG = ''
CPUS = sorted(os.sched_getaffinity(0))
ENOUGH_S = 100
NOBODY = 65534
OPS = ('write', 'send', 'read')


def eal(lcores):
    return ['--lcores', lcores, '--no-huge', '-m', '256', '--no-pci', '--no-telemetry', '--log-level', 'error', '--file-prefix',
            f'test-embed-{os.getpid()}']


def run(words, program=None, env=os.environ, **more):
    with tempfile.TemporaryDirectory() as folder:       # EAL leaves its folder in that one
        os.chmod(folder, 0o777)
        return subprocess.run([program or EMBED, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ENOUGH_S, check=False,
                              env={**env, 'RUNTIME_DIRECTORY': folder}, **more)


def one():
    return f'0@{CPUS[0]}'


class Embed(unittest.TestCase):
    def good(self, lcores, *words, ops=OPS, **more):
        result = run([*eal(lcores), '--', '--seconds', '0.05', *words], **more)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        lines = [line for line in result.stdout.splitlines() if 'every byte right' in line]
        self.assertEqual([line.split()[0] for line in lines], list(ops), result.stdout)
        for line in lines:
            self.assertGreater(int(line.split('bytes: ')[1].split()[0]), 0, line)

    def test_one_lcore_drives_both_hosts(self):
        for size in ('1', '4097', '1048576'):
            with self.subTest(size=size):
                self.good(one(), '--size', size)

    def test_two_lcores(self):
        self.good(f'0@{CPUS[0]},1@{CPUS[-1]}')
        self.good(f'0@{CPUS[0]},1@{CPUS[0]}', '--op', 'send', '--size', '100', ops=('send',))

    @unittest.skipUnless(os.geteuid() == 0, 'an ordinary user already')
    def test_needs_no_privileges(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            program, library = (shutil.copy(path, folder) for path in (
                EMBED, os.path.join(os.path.dirname(EMBED), '../../lib/uroce/liburoce.so.0')))
            os.chmod(program, 0o755)
            os.chmod(library, 0o755)
            self.good(one(), '--op', 'write', ops=('write',), program=program, user=NOBODY, group=NOBODY, extra_groups=[],
                      cwd=folder, env={'PATH': os.environ['PATH'], 'LD_LIBRARY_PATH': folder, 'XDG_RUNTIME_DIR': folder})

    def test_wrong_arguments_are_refused(self):
        for words, message in (
                (['--size', '0'], '--size 0: must be 1 to 8388608'),
                (['--size', '8388609'], '--size 8388609: must be'),
                (['--size', '-1'], '--size -1: must be'),
                (['--size', '4k'], '--size 4k: must be'),
                (['--size'], '--size needs a value'),
                (['--seconds', '0'], '--seconds 0: must be 0.01 to 3600'),
                (['--seconds', 'nan'], '--seconds nan: must be'),
                (['--op', 'atomic'], '--op atomic: must be write, send or read'),
                (['--port', '1'], 'unknown option --port'),
                (['198.18.0.1'], "'198.18.0.1' is no option")):
            with self.subTest(words=words):
                result = run([*eal(one()), '--', *words])
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(message, result.stderr)
                self.assertIn('--help', result.stderr)
        result = run([*eal(f'0@{CPUS[0]},1@{CPUS[0]},2@{CPUS[0]}'), '--'])
        self.assertEqual(result.returncode, 2)
        self.assertIn('3 lcores, but there is work for one or two', result.stderr)
        result = run(['--', '--help'])
        self.assertEqual((result.returncode, result.stdout.split()[:2]), (0, ['Usage:', 'embed']))

    def test_is_built_by_pkg_config(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(EXAMPLE, os.path.join(folder, 'embed'), ignore=shutil.ignore_patterns('*.o', 'embed'))
            built = subprocess.run(['make', '-C', copy], capture_output=True, text=True, timeout=ENOUGH_S, check=False,
                                   env={**os.environ, 'PKG_CONFIG_PATH': PKGCONFIG, 'CFLAGS': '-O0 -Werror'})
            self.assertEqual(built.returncode, 0, built.stdout + built.stderr)
            library = os.path.join(os.path.dirname(EMBED), '../../lib/uroce')
            self.good(one(), '--op', 'read', ops=('read',), program=os.path.join(copy, 'embed'),
                      env={**os.environ, 'LD_LIBRARY_PATH': library})


if __name__ == '__main__':
    EMBED, EXAMPLE, PKGCONFIG = (os.path.abspath(p) for p in sys.argv[1:4])
    unittest.main(argv=sys.argv[:1])
