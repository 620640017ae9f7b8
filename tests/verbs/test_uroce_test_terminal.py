#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-test as a newcomer types at it: Tab, ?, earlier lines, Ctrl-C, a mistake, the demonstration, the end."""

import os
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from uroce_lab import daemon  # noqa: E402

try:
    import pexpect
except ImportError:
    pexpect = None

PROGRAM = os.path.join(daemon.build_dir(), 'app/uroce-test/uroce-test')
PROMPT = 'uroce-test> '
SECONDS = 30
CTRL_C, CTRL_D, CTRL_R, CTRL_U, UP = '\x03', '\x04', '\x12', '\x15', '\x1b[A'


@unittest.skipIf(pexpect is None, 'needs python3-pexpect')
class Terminal(unittest.TestCase):
    def setUp(self):
        self.state = tempfile.mkdtemp(prefix='uroce-test-')
        self.addCleanup(shutil.rmtree, self.state, ignore_errors=True)
        self.begin()

    def begin(self, program=PROGRAM, args=()):
        self.shell = pexpect.spawn(program, list(args), env=dict(os.environ, TERM='xterm', XDG_STATE_HOME=self.state, HOME=self.state),
                                   encoding='utf-8', dimensions=(40, 150), timeout=SECONDS)
        self.shell.delaybeforesend = None
        self.addCleanup(self.shell.close, True)
        self.banner = self.until(PROMPT)

    def until(self, *wanted):
        """Wait for one after the other. Returns what came before the last."""
        for want in wanted:
            self.shell.expect(want)
        return self.shell.before

    def type(self, text, *wanted):
        self.shell.send(text)
        return self.until(*wanted)

    def end(self):
        """@return the exit status"""
        self.until(pexpect.EOF)
        self.shell.close()
        return self.shell.exitstatus

    def history(self):
        with open(os.path.join(self.state, 'uroce/uroce-test.history'), encoding='utf-8') as f:
            return f.read()

    def test_the_banner_says_what_there_is_and_what_to_try(self):
        self.assertRegex(self.banner, r'(?s)2 hosts.*h1: device uroce0, port net_memif0 up, GIDs 198\.18\.0\.1, fd00:18::1.*h2: .*'
                                      r'demo .*start write duration 5.*help .*exit')
        self.type('exit\r')
        self.assertEqual(self.end(), 0)

    def test_tab_completes_and_says_what_words_are(self):
        # The terminal draws only what is new.
        self.type('sh\t', 'ow ')
        self.type('gi\t', 'd ')
        self.type('h2\r', r'h2 +1 +198\.18\.0\.2', PROMPT)
        self.type('create \t', 'ah +Create an address handle', 'xrcd +Open an XRC domain', PROMPT)
        self.type('pd ?', 'host +where; h1 if left out', PROMPT)
        self.type('host \t', 'h')
        self.type('\t', r'h1 +198\.18\.0\.1, fd00:18::1', r'h2 +198\.18\.0\.2', PROMPT)
        self.type(CTRL_U + 'create pd\r', 'pd1: of h1', PROMPT)
        self.type('create cq\r', 'cq1: of h1', PROMPT)
        self.type('create qp pd1 cq1\r', 'qp1: RC', PROMPT)
        self.type('create qp pd1 cq1\r', 'qp2: RC', PROMPT)
        self.type('start write on qp1,\t\t', 'qp', 'qp1 +RC of h1, QPN 0x', PROMPT)
        self.type(CTRL_U + 'start write size ?', 'size: bytes of a message.*: a number from 1 to', PROMPT)
        self.type(CTRL_U + 'show wor\t', 'kload ')
        self.type('\r', 'no workload has been started', PROMPT)
        self.type('nonsense ?', 'no command begins so', PROMPT)
        self.type(CTRL_U + 'quit\r')
        self.assertEqual(self.end(), 0)

    def test_earlier_lines_come_back_also_in_the_next_session(self):
        self.type('show gid h1\r', r'h1 +1 ', PROMPT)
        self.type('show neigh\r', 'no neighbour', PROMPT)
        self.type(UP + UP, 'show', 'gid h1')
        self.type('\r', r'h1 +1 ', PROMPT)
        self.type(CTRL_R + 'neig', 'show neigh')
        self.type('\r', 'no neighbour', PROMPT)
        self.type(CTRL_D)
        self.assertEqual(self.end(), 0)
        self.assertIn('neigh', self.history())
        self.assertEqual(os.stat(os.path.join(self.state, 'uroce/uroce-test.history')).st_mode & 0o77, 0)
        self.begin()
        self.type(UP, 'show neigh')
        self.type('\r', 'no neighbour', PROMPT)
        self.type('exit\r')
        self.assertEqual(self.end(), 0)

    def test_the_terminal_is_set_before_the_prompt_is_there(self):
        """A Ctrl-D typed in between would get the terminal's own meaning, and uroce-test would read a NUL."""
        if not shutil.which('strace'):
            self.skipTest('strace is not installed')
        trace = os.path.join(self.state, 'trace')
        self.type('exit\r')
        self.end()
        self.begin('strace', ['-o', trace, '-e', 'trace=write,ioctl', PROGRAM])
        for _ in range(3):
            self.type('show neigh\r', 'no neighbour', PROMPT)
        self.type(CTRL_D)
        self.assertEqual(self.end(), 0)
        with open(trace, encoding='utf-8') as f:
            lines = [line for line in f if 'TCSET' in line or f'"{PROMPT}"' in line]
        prompts = [i for i, line in enumerate(lines) if PROMPT in line]
        self.assertEqual(len(prompts), 4)
        for i in prompts:
            self.assertIn('TCSET', lines[i - 1])
            self.assertNotIn('ICANON', lines[i - 1])

    def test_ctrl_c_gives_up_a_line_or_ends_a_command_but_not_the_program(self):
        self.type('create everything', 'everything')
        self.type(CTRL_C, r'\^C', PROMPT)
        # The terminal throws away what was typed before, at any moment of reading it.
        for _ in range(100):
            self.type(CTRL_R + 'cre')
            self.type(CTRL_C, r'\^C', PROMPT)
        self.type('sleep 600\r', '\n')
        self.type(CTRL_C, 'interrupted', PROMPT)
        self.type('start write\r', 'w1 started', PROMPT)
        self.type('wait w1 600\r', '\n')
        self.type(CTRL_C, 'w1 runs still', 'interrupted', PROMPT)
        self.type('show top interval 0.1\r', 'RTS', 'any key', 'RTS')
        self.type(CTRL_C, 'interrupted', PROMPT)
        self.type('show top interval 0.1\r', 'RTS', 'any key', 'RTS')
        self.type('x', PROMPT)
        self.type('stop all\r', 'w1 write: .* ops/s', PROMPT)
        self.type('exit\r')
        self.assertEqual(self.end(), 1)                         # "runs still"

    def test_a_mistake_is_answered_with_what_was_meant(self):
        self.type('shaw port\r', "'shaw': no such command; did you mean 'show'", PROMPT)
        self.type('start write durration 1\r', "'durration': did you mean 'duration'", PROMPT)
        self.type('exit\r')
        self.assertEqual(self.end(), 1)

    def test_what_happens_meanwhile_does_not_overwrite_the_line(self):
        self.type('start write duration 0.3\r', 'w1 started', PROMPT)
        self.type('show po', 'show po')
        # The end is announced, and the line is drawn again below.
        self.until(r'w1 write: .* ops/s', PROMPT + 'show po')
        self.type('rt\r', r'h1 +uroce0 ', PROMPT)
        self.type('exit\r')
        self.assertEqual(self.end(), 0)

    def test_a_demo_interrupted_leaves_a_good_network(self):
        self.type('demo\r', 'all right', 'loss=0.01', r'\*\*')
        self.type(CTRL_C, 'h2: not impaired', 'w2 write', 'interrupted', PROMPT)
        self.type('show impair\r', 'no host is impaired', PROMPT)
        self.type('exit\r')
        self.assertEqual(self.end(), 1)


if __name__ == '__main__':
    unittest.main()
