#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs that want more than their share, run as another user beside a victim: what ib_write_bw between h1 and h2 gets beside them,
as part of what it gets alone. The programs are one user's, the victim another's, so that half of an engine is each one's due, however many programs there are.

Both are measured in turn, and the best of each counts: other load on the machine makes single runs slower, never faster.

  test_shares.py         two rows, as part of the test run: whether the victim starves
  test_shares.py --all   all rows, and all that is the victim's due, for a machine that does nothing else: three floods and a victim are five programs and an engine
"""

import contextlib
import os
import signal
import sys
import time
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, '..'), os.path.join(HERE, '../../../scripts')]

from labs import AS_NOBODY, SKIPPED, Skip, lab_up, main, not_as_others  # noqa: E402
from uroce_lab import daemon, pairs  # noqa: E402

NAME = f'y{os.getpid()}'
PROGRAMS = os.path.join(daemon.build_dir(), 'tests/verbs/hostile')
BEGIN_SECONDS = 30          # until the attack is going on
VICTIM = ['ib_write_bw', '-d', 'uroce0', '-D', '1']
VICTIM_SECONDS = 30
ROUNDS = 4
IDLE = 0.95                 # beside an attack that takes no CPU
STARVED = 0.4               # what is asked for in the test run: a virtual machine's speed changes by half from one run to the next
BUSY = 0.8                  # of half, beside a busy user

ALL = '--all' in sys.argv
# The name of the row: how many programs of one user, the program and its arguments, the part of its due that the victim must get.
ROWS = {
    'windows that are never given back': (1, ['windows', '1024'], IDLE),
    'a flood of 16 QPs': (1, ['flood', '16', '4096'], BUSY),
}
MORE_ROWS = {
    'windows of four sessions': (4, ['windows', '512'], IDLE),
    'a flood of small packets': (1, ['flood', '16', '8'], BUSY),
    'three floods': (3, ['flood', '4', '32768'], BUSY),
}


@unittest.skipIf(not_as_others(), not_as_others())
class Shares(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # One engine thread for both hosts: the threads of two daemons and two programs would take two CPUs by chance.
        cls.up = lab_up('--one-process', name=NAME)
        cls.lab = cls.up.__enter__()
        path = cls.lab.hosts['h1']['socket']
        os.chmod(path, 0o666)
        while (path := os.path.dirname(path)).startswith(cls.lab.data['dir']):
            os.chmod(path, 0o755)

    @classmethod
    def tearDownClass(cls):
        cls.up.__exit__(None, None, None)

    def victim(self):
        pair = pairs.run_pair(self.lab, VICTIM, VICTIM_SECONDS)
        self.assertTrue(pair.ok, pair.report())
        return float(pairs.rows(pair.client.text())[-1][3])

    @staticmethod
    def kill(side):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(side.child.pid, signal.SIGKILL)
        side.kill()

    def begin(self, program):
        side = pairs.Side(self.lab, 'h1', [*AS_NOBODY, os.path.join(PROGRAMS, 'hostile_' + program[0]), *program[1:]])
        self.addCleanup(self.kill, side)
        end = time.monotonic() + BEGIN_SECONDS
        while 'attacking' not in side.text() and side.child.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        if side.status == SKIPPED:
            raise Skip(side.text())
        self.assertIn('attacking', side.text(), side.report())
        return side

    def attack(self, name, programs, program, part):
        alone, beside = [], []
        for _ in range(ROUNDS):
            alone.append(self.victim())
            sides = [self.begin(program) for _ in range(programs)]
            beside.append(self.victim())
            for side in sides:
                self.assertIsNone(side.child.poll(), side.report())
                self.kill(side)
        due = part if part == IDLE else part / 2
        due = due if ALL else min(due, STARVED)
        got = max(beside) / max(alone)
        print(f'{name}: {got:.2f} of what ib_write_bw gets alone ({max(beside):.0f} of {max(alone):.0f} MiB/s)')
        self.assertGreaterEqual(got, due, f'alone {alone}, beside {beside}')
        self.assertTrue(self.lab.whole(), 'a daemon ended:\n' + self.lab.logs())


def row(name, programs, program, part):
    def test(self):
        self.attack(name, programs, program, part)
    test.__doc__ = name
    return test


for row_name, values in {**ROWS, **(MORE_ROWS if ALL else {})}.items():
    setattr(Shares, 'test_' + row_name.replace(' ', '_'), row(row_name, *values))

if __name__ == '__main__':
    sys.exit(main([word for word in sys.argv if word != '--all']))
