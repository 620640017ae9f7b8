#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-run: what it sets, and what it says of programs that won't load uroce's libraries. Argument: uroce-run"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

CAN_NOT_RUN, NOT_FOUND = 126, 127
NOBODY = 65534
DOES_NOT = "does not load uroce's libraries"
ARM64 = bytes.fromhex('7f454c46020101000000000000000000' '0200b70001000000') + bytes(64)


class UroceRun(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='uroce-run-')
        self.addCleanup(shutil.rmtree, self.dir)
        os.chmod(self.dir, 0o755)
        source = self.path('program.c')
        with open(source, 'w', encoding='ascii') as f:
            f.write('int main(void) { return 7; }\n')

    def path(self, name):
        return os.path.join(self.dir, name)

    def compiled(self, name, *options):
        done = subprocess.run(['cc', '-o', self.path(name), self.path('program.c'), *options], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            self.skipTest(f'the compiler: {done.stdout}')
        return self.path(name)

    def file(self, name, content):
        with open(self.path(name), 'wb') as f:
            f.write(content)
        os.chmod(self.path(name), 0o755)
        return self.path(name)

    def run_it(self, *words, user=None, **variables):
        env = {'PATH': f'{self.dir}:/usr/bin:/bin', **variables}
        return subprocess.run([UROCE_RUN, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, user=user,
                              group=user, extra_groups=[] if user else None, check=False)

    def test_the_environment_of_a_program(self):
        said = dict(line.split('=', 1) for line in self.run_it('--socket', '/a/b', 'env', ASAN_OPTIONS='x=1', LD_LIBRARY_PATH='/c',
                                                               LD_PRELOAD='').stdout.splitlines())
        folder = said['LD_LIBRARY_PATH'].split(':')[0]
        self.assertEqual(said['LD_LIBRARY_PATH'], f'{folder}:/c')
        self.assertTrue(os.path.exists(os.path.join(folder, 'libibverbs.so.1')))
        self.assertEqual(said['LD_PRELOAD'], f'{folder}/liburoce-sysfs.so')
        self.assertEqual(said['ASAN_OPTIONS'], 'x=1:verify_asan_link_order=0')
        self.assertEqual(said['UROCE_SOCKET'], '/a/b')

    def test_without_the_preloaded_library(self):
        said = self.run_it('--no-sysfs', 'env').stdout
        self.assertNotIn('LD_PRELOAD', said)
        self.assertNotIn('ASAN_OPTIONS', said)

    def quiet(self, *words, **more):
        done = self.run_it(*words, **more)
        self.assertEqual((done.returncode, done.stderr), (7, ''), words)

    def noted(self, words, *program, **more):
        """The program is executed, and uroce-run says these words before."""
        done = self.run_it(*program, **more)
        self.assertEqual(done.returncode, 7, done.stderr)
        for word in (*words, DOES_NOT):
            self.assertIn(word, done.stderr)

    def test_an_ordinary_program(self):
        self.quiet(self.compiled('plain'))
        self.quiet('plain')

    def test_address_sanitizer(self):
        self.quiet(self.compiled('asan', '-fsanitize=address'))

    def test_a_static_program(self):
        self.noted(['linked statically'], self.compiled('static', '-static'))
        self.noted([self.path('static'), 'linked statically'], 'static')

    def test_scripts(self):
        self.compiled('static', '-static')
        self.compiled('plain')
        self.quiet(self.file('to-plain', f'#!{self.path("plain")} -x\n'.encode()))
        self.noted([self.path('static')], self.file('to-static', f'#!{self.path("static")}\n'.encode()))
        self.noted([self.path('static')], self.file('through-env', b'#!/usr/bin/env -S A=1 static\n'))
        self.file('circle', f'#!{self.path("circle")}\n'.encode())
        self.assertEqual(self.run_it('circle').returncode, CAN_NOT_RUN)

    def test_rpath(self):
        os.mkdir(self.path('other'))
        os.mkdir(self.path('empty'))
        self.file('other/libibverbs.so.1', b'')
        old, new = '-Wl,--disable-new-dtags', '-Wl,--enable-new-dtags'
        self.noted(['DT_RPATH', self.path('other')], self.compiled('a', old, f'-Wl,-rpath,{self.path("empty")}:{self.path("other")}'))
        self.noted(['DT_RPATH', '$ORIGIN/other'], self.compiled('b', old, '-Wl,-rpath,$ORIGIN/other'))
        self.quiet(self.compiled('c', new, f'-Wl,-rpath,{self.path("other")}'))
        self.quiet(self.compiled('d', old, f'-Wl,-rpath,{self.path("empty")}'))

    @unittest.skipUnless(os.geteuid() == 0, 'only root can make a program of another user')
    def test_a_setuid_program(self):
        program = self.compiled('setuid')
        os.chmod(program, 0o4755)
        self.quiet(program)
        if subprocess.run(['/usr/bin/test', '-x', UROCE_RUN], user=NOBODY, check=False).returncode:
            self.skipTest(f'user {NOBODY} may not execute {UROCE_RUN}')
        self.noted(['LD_LIBRARY_PATH', 'setuid'], program, user=NOBODY)

    def test_another_processor(self):
        done = self.run_it(self.file('arm64', ARM64))
        self.assertEqual(done.returncode, CAN_NOT_RUN)
        self.assertRegex(done.stderr, 'arm64.*' + DOES_NOT + '.*it is for arm64')

    def test_what_is_no_program(self):
        self.assertEqual(self.run_it('no-such-program').returncode, NOT_FOUND)
        self.assertEqual(self.run_it(self.dir).returncode, CAN_NOT_RUN)
        self.assertEqual(self.run_it('program.c').returncode, CAN_NOT_RUN)
        self.assertNotEqual(self.run_it(self.file('short', b'\x7fELF')).returncode, 0)


if __name__ == '__main__':
    UROCE_RUN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
