#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Hostile programs, run as another user beside a victim: the daemon must go on for everybody else.

A row of ROWS and of QUOTAS is a program of this folder and its arguments. It prints "attacking" when the attack is going on. Then the victims are
run: a new program that opens the device, one that registers shared memory, and ib_write_bw between h1 and h2. Then the hostile program is killed, after which the
daemon must have as many descriptors as before.

A row of NAMES is one of hostile_identity, which gets the address of a peer and the number of a QP. The victim is an rping between h1
and h2 that must go on.
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
from uroce_lab.telemetry import ask  # noqa: E402

NAME = f'x{os.getpid()}'
PROGRAMS = os.path.join(daemon.build_dir(), 'tests/verbs/hostile')
BEGIN_SECONDS = 20          # until the attack is going on
VICTIM_SECONDS = 20         # that a victim's program may take
OPEN_SECONDS = 3            # until a new program has its device
REGISTER_MS = 1500          # until its memory is registered; the daemon asks for 2 s at most
MORE_DESCRIPTORS = 200      # that the program may cost the daemon
MORE_MEMORY_KIB = 300 << 10 # the same; the default limits are 256 MiB for metadata and queues that nobody uses
END_SECONDS = 10            # until all that the killed program had is gone

# The name of the row: the program and its arguments.
ROWS = {
    'completion events into memory that never comes': ['events', 'cq'],
    'asynchronous events into memory that never comes': ['events', 'async'],
    'events of rdma_cm into memory that never comes': ['events', 'cm'],
    'descriptors that never close': ['descriptors', '2'],
    'many descriptors that never close': ['descriptors', '253'],
    'RDMA into memory that never comes': ['slow', 'never'],
    'RDMA into memory whose page faults wait': ['slow', 'mprotect'],
    'other files of procfs in the place of memory': ['procmem'],
    'mappings that change all the time': ['maps', '8'],
}
QUOTAS = {
    'connections without HELLO': ['shares', 'mute'],
    'MRs of segments of a byte': ['shares', 'segments'],
    'all queue pairs': ['shares', 'qp'],
    'all XRC domains': ['shares', 'xrcd'],
    'all ids of rdma_cm': ['shares', 'id'],
}
# Those that may have the descriptors of their own limit, which leaves enough to others.
FEW_LIMITS = {'connections without HELLO': 4200, 'all XRC domains': 4200}
# The name of the row: what hostile_identity does, and the key of the QP number in the victim's description.
NAMES = {
    "a request with another program's QP": ('request', 'qpn'),
    "a QP connected to another's peer": ('peer', 'dest_qpn'),
}
RPINGS = 1000000            # of the victim: more than it can do while it is attacked
PINGED_SECONDS = 3


@unittest.skipIf(not_as_others(), not_as_others())
class Bed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # As a service the daemon is an ordinary user.
        cls.up = lab_up('--user', 'daemon', name=NAME)
        cls.lab = cls.up.__enter__()
        # As a daemon that serves all users.
        path = cls.lab.hosts['h1']['socket']
        os.chmod(path, 0o666)
        while (path := os.path.dirname(path)).startswith(cls.lab.data['dir']):
            os.chmod(path, 0o755)

    @classmethod
    def tearDownClass(cls):
        cls.up.__exit__(None, None, None)

    def descriptors(self):
        return len(os.listdir(f'/proc/{self.lab.pid("h1")}/fd'))

    def victims(self):
        start = time.monotonic()
        done = self.lab.run('h1', 'ibv_devinfo', timeout=VICTIM_SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertLess(time.monotonic() - start, OPEN_SECONDS, 'a program waited for its device')
        done = self.lab.run('h1', os.path.join(PROGRAMS, 'hostile_registers'), '300', str(REGISTER_MS), timeout=VICTIM_SECONDS)
        self.assertEqual(done.returncode, 0, 'a program waited for its registration: ' + done.stdout)
        pair = pairs.run_pair(self.lab, ['ib_write_bw', '-d', 'uroce0', '-D', '1'], VICTIM_SECONDS)
        self.assertTrue(pair.ok, pair.report())
        return float(pairs.rows(pair.client.text())[-1][3])

    @staticmethod
    def kill(side):
        """With the server of its file system, for which its threads may wait."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(side.child.pid, signal.SIGKILL)
        side.kill()

    def memory(self):
        with open(f'/proc/{self.lab.pid("h1")}/status', encoding='ascii') as f:
            return next(int(line.split()[1]) for line in f if line.startswith('VmRSS:'))

    def begin(self, program):
        side = pairs.Side(self.lab, 'h1', [*AS_NOBODY, os.path.join(PROGRAMS, 'hostile_' + program[0]), *program[1:]])
        self.addCleanup(self.kill, side)
        end = time.monotonic() + BEGIN_SECONDS
        while 'attacking' not in side.text() and side.child.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        if side.status == SKIPPED:
            raise Skip(side.text())
        self.assertIsNone(side.child.poll(), side.report())
        self.assertIn('attacking', side.text(), side.report())
        return side

    def attack(self, name, program):
        before, memory = self.descriptors(), self.memory()
        side = self.begin(program)
        rate = self.victims()
        self.assertLess(self.descriptors(), before + FEW_LIMITS.get(name, MORE_DESCRIPTORS), 'a user takes the descriptors of all')
        self.assertLess(self.memory(), memory + MORE_MEMORY_KIB, "a user takes the daemon's memory")
        if program[0] == 'shares' and program[1] != 'mute':
            self.assertRegex(side.text(), r'no more .* for this (program|user): daemon\.(session|user)_max_', side.report())
        self.assertIsNone(side.child.poll(), side.report())
        self.kill(side)
        end = time.monotonic() + END_SECONDS
        while self.descriptors() > before and time.monotonic() < end:
            time.sleep(0.1)
        self.assertLessEqual(self.descriptors(), before, 'descriptors are left behind')
        self.assertTrue(self.lab.whole(), 'a daemon ended:\n' + self.lab.logs())
        print(f'{name}: ib_write_bw of the victim: {rate:.0f} MiB/s')


    def pinged(self, client):
        """Whether the victim makes progress."""
        before = client.text().count('ping data')
        time.sleep(PINGED_SECONDS)
        return client.child.poll() is None and client.text().count('ping data') > before

    def attack_name(self, name, what, key):
        server = pairs.Side(self.lab, 'h2', ['rping', '-s', '-a', self.lab.tcp_address('h2'), '-P'])
        self.addCleanup(server.kill)
        time.sleep(1)
        client = pairs.Side(self.lab, 'h1', ['rping', '-c', '-v', '-C', str(RPINGS), '-a', self.lab.tcp_address('h2')])
        self.addCleanup(client.kill)
        self.assertTrue(self.pinged(client), client.report() + server.report())
        number = self.ask('/uroce/qp,state=RTS')['numbers'][0]
        side = self.begin(['identity', what, self.lab.tcp_address('h2'), str(self.ask(f'/uroce/qp,{number}')[key])])
        self.assertTrue(self.pinged(client), client.report() + server.report() + side.report())
        self.assertIsNone(side.child.poll(), side.report())
        self.kill(side)
        client.kill()
        server.kill()
        self.assertTrue(self.lab.whole(), 'a daemon ended:\n' + self.lab.logs())

    def ask(self, command):
        return ask(self.lab.data, self.lab.hosts['h1'], command)


def name_row(name, what, key):
    def test(self):
        self.attack_name(name, what, key)
    test.__doc__ = name
    return test


def row(name, program):
    def test(self):
        self.attack(name, program)
    test.__doc__ = name
    return test


class Hostile(Bed):
    """What a program shares with the daemon."""


class Shares(Bed):
    """How much it takes."""


class Names(Bed):
    """In whose name it speaks."""


for case, rows, make in ((Hostile, ROWS, row),
                         (Shares, QUOTAS, row),
                         (Names, NAMES, lambda name, what: name_row(name, *what))):
    for row_name, what_row in rows.items():
        setattr(case, 'test_' + row_name.replace(' ', '_').replace("'", ''), make(row_name, what_row))

if __name__ == '__main__':
    sys.exit(main())
