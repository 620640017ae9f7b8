#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-lab restart --stop: a daemon ends, as under `systemctl restart`, and the next one goes on with its programs.

  tests/verbs/test_stop_start.py            half a minute
  tests/verbs/test_stop_start.py --long     each program under 30 restarts
"""

import os
import signal
import socket
import subprocess
import sys
import time
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

import test_restart  # noqa: E402
from labs import LAB, Skip, main  # noqa: E402
from test_restart import MEMIF, MORE, PROGRAMS, RESTARTS, RPING, SECONDS, VERIFY, VETH, Pair  # noqa: E402
from uroce_lab import daemon, restart  # noqa: E402

NAME = 'uroce-programs'     # of what the service manager keeps


class Stopping(test_restart.Restarting):
    how = ('--stop',)


class Memif(Stopping):
    def test_programs_go_on(self):
        for number, program in enumerate(PROGRAMS[:1] + PROGRAMS[2:]):
            with self.subTest(program[0]):
                self.under(program, RESTARTS if number else MORE)

    def test_a_connection_of_rdma_cm_goes_on(self):
        self.under(RPING)

    def test_what_arrived_was_right(self):
        """verify says so only at its end."""
        pair = subprocess.Popen([LAB, 'pair', '--name', self.lab.name, VERIFY, '-n', '800', '-u', '16'], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.wait_sessions(True)
        for _ in range(RESTARTS + 1):
            self.restart()
        said = pair.communicate(timeout=SECONDS)[0]
        self.assertEqual(pair.returncode, 0, said + self.lab.logs())
        self.assertEqual(said.count('were right'), 2, said)

    def test_nothing_is_left_over(self):
        self.restart()
        self.wait_idle()
        before = self.descriptors()
        self.under([VERIFY, '-n', '100000'], 2)
        self.wait_idle()
        self.restart()
        self.assertEqual(self.descriptors(), before)

    def test_without_programs_nothing_waits(self):
        self.wait_idle()
        said = len(self.lab.logs())
        self.restart()
        self.assertNotIn('for the next one', self.lab.logs()[said:])
        self.assertEqual(self.taken_over()['daemons'], 0)


class NotRoot(Stopping):
    """The daemons give up root's rights; their brokers must not remove what the next ones use."""
    options = (*MEMIF, '--user', 'daemon')

    def test_programs_go_on(self):
        if os.geteuid() != 0:
            raise Skip('needs root')
        self.under([VERIFY, '-n', '100000', '-u', '16'])
        self.assertTrue(os.path.exists(self.lab.hosts['h1']['socket']))


class Veth(Stopping):
    options = VETH

    def test_one_end_is_replaced(self):
        self.under([VERIFY, '-n', '100000', '-u', '16'])


class Silent(restart.Manager):
    """A service manager that never says that it has dealt with what it was told."""

    def __exit__(self, *arguments):
        super().__exit__(*arguments)
        for descriptor in self.barriers:
            os.close(descriptor)

    barriers = ()

    def take(self):
        try:
            _, descriptors, _, _ = socket.recv_fds(self.socket, 4096, 1)
        except TimeoutError:
            return
        self.barriers = (*self.barriers, *descriptors)


class Refused(Stopping):
    """What the next daemon says when it can't go on: it serves, and programs learn that their device has gone."""

    def setUp(self):
        self.host_data = self.lab.hosts['h1']

    def begin_pair(self):
        pair = Pair(self.lab.name, PROGRAMS[0])
        self.wait_sessions(True)
        return pair

    def end_daemon(self, manager):
        """Tell it to end, and wait for that."""
        old = daemon.started(self.host_data)
        end = time.monotonic() + SECONDS
        old.signal(signal.SIGTERM)
        while old.alive():
            self.assertLess(time.monotonic(), end)
            manager.take()
        manager.poll()

    def start_daemon(self, kept):
        said = os.path.getsize(self.host_data['log'])
        with restart.spare_hugepages(self.lab.data) as hugepages:
            child = daemon.start(self.lab.data, self.host_data, hugepages=hugepages, again=True, kept=kept)
            restart.wait_served(self.host_data, child, said)
        return self.lab.logs()

    def ends(self, pair):
        end = time.monotonic() + SECONDS
        while pair.running() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertFalse(pair.running())
        pair.stop()

    def test_another_configuration(self):
        pair = self.begin_pair()
        write_config = daemon.write_config

        def other(lab, host, name='uroced.conf'):
            path = write_config(lab, host, name)
            with open(path, encoding='utf-8') as f:
                text = f.read()
            with open(path, 'w', encoding='utf-8') as f:
                f.write(text.replace('[port uroce0]', '[port uroce1]'))
            return path

        with restart.Manager(daemon.notify_socket(self.host_data)) as manager:
            self.end_daemon(manager)
            self.assertEqual(manager.kept[1], NAME)
            with mock.patch.object(daemon, 'write_config', other):
                said = self.start_daemon(manager.kept)
            manager.take()
        self.assertIn("the programs of the daemon before can't go on: ", said)
        self.assertIn('port 0 of the running daemon is uroce0, of this one uroce1', said)
        self.ends(pair)
        self.restart()

    def test_programs_that_were_read_already(self):
        """A daemon has ended while it made them anew."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with restart.Manager(daemon.notify_socket(self.host_data)) as manager, ours, theirs:
            self.end_daemon(manager)
            self.assertIsNone(manager.kept)
            ours.close()
            self.assertIn("can't go on: another daemon has read them", self.start_daemon((theirs.fileno(), NAME)))

    def test_what_is_kept_is_something_else(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with restart.Manager(daemon.notify_socket(self.host_data)) as manager, ours, theirs:
            self.end_daemon(manager)
            ours.send(b'x' * 40)
            self.assertIn("can't go on: Protocol error", self.start_daemon((theirs.fileno(), NAME)))

    def test_a_manager_that_does_not_answer(self):
        pair = self.begin_pair()
        with Silent(daemon.notify_socket(self.host_data)) as manager:
            self.end_daemon(manager)
            self.assertGreater(len(manager.barriers), 1)
        self.assertIn("the programs end with this daemon: the service manager doesn't take them: Connection timed out", self.lab.logs())
        self.ends(pair)
        self.start_daemon(None)


if __name__ == '__main__':
    sys.exit(main([word for word in sys.argv if word != '--long']))
