#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The examples for programs: they build as a reader builds them, without the headers of uroce, and run over uroce-lab pair."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import LAB, NAME, Skip, lab_up, main  # noqa: E402
from uroce_lab import daemon  # noqa: E402

EXAMPLES = os.path.join(daemon.ROOT, 'examples')
SECONDS = 60


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.up = lab_up()
        cls.up.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.up.__exit__(None, None, None)

    def pair(self, *words):
        done = subprocess.run([LAB, 'pair', '--name', NAME, '--timeout', '30', *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_verbs(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ('Makefile', 'write_imm.c'):
                shutil.copy(os.path.join(EXAMPLES, 'verbs', name), folder)
            # Anybody's program: nothing of this tree is in its way.
            done = subprocess.run(['make', '-C', folder, 'CFLAGS=-O2 -Wall -Wextra -Werror -std=gnu11'], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False)
            self.assertEqual(done.returncode, 0, done.stdout)
            said = self.pair(os.path.join(folder, 'write_imm'), '-n', '1000')
        self.assertIn('h1: server: slot 0 says "message 0"', said)
        self.assertIn('h2: client: slot 0 says "answer to message 0"', said)
        for host, end in (('h1', 'server'), ('h2', 'client')):
            self.assertIn(f'{host}: {end}: 1000 messages received, 1000 sent, all as expected', said)

    def test_pyverbs(self):
        if subprocess.run(['/usr/bin/python3', '-c', 'import pyverbs'], capture_output=True, check=False).returncode:
            raise Skip('pyverbs is not installed (package python3-pyverbs)')
        said = self.pair(os.path.join(EXAMPLES, 'pyverbs/send_recv.py'))
        self.assertIn('h1: server: hello', said)
        self.assertIn('h2: client: hello yourself', said)


if __name__ == '__main__':
    sys.exit(main())
