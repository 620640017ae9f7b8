#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-lab restart --kill: a daemon is killed, and the next one goes on with its programs.

  tests/verbs/test_crash.py            some minutes
  tests/verbs/test_crash.py --long     each program under 40 kills
"""

import os
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

import kills_watch  # noqa: E402
import test_restart  # noqa: E402
from labs import LAB, Skip, main  # noqa: E402
from test_restart import LONG, MEMIF, PROGRAMS, RPING, SECONDS, STARTED, VERIFY, VETH  # noqa: E402
from uroce_lab import daemon  # noqa: E402
from uroce_lab.state import Process  # noqa: E402

SURVIVE = '--survive-crash'
AT_ONCE = 3                 # daemons in a row that may crash on the same records
CALM = 4                    # seconds after which a crash is no longer one on them
KILLS = 40 if LONG else 2   # under each program
RSTREAM = ('rstream', '-T', 'a', '-T', 'v', '-S', '64', '-C', '100', '-I', '10000')  # both ends check what they get


class Killing(test_restart.Restarting):
    how = ('--kill',)
    kills = 0               # since the last pause
    only_long = ()          # tests that run only with --long: of test_crash.py and test_standby.py, the other one has them

    def setUp(self):
        if not LONG and self._testMethodName in self.only_long:
            self.skipTest('only with --long')

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kills = 0

    def restart(self, status=0, **options):
        """So that daemons don't seem to crash on the records."""
        if type(self).kills == AT_ONCE:
            time.sleep(CALM)
            type(self).kills = 0
        type(self).kills += 1
        return super().restart(status, **options)

    def begin(self, host, *program):
        child = subprocess.Popen([LAB, 'run', '--name', self.lab.name, host, *program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, start_new_session=True)

        def end():
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
        self.addCleanup(end)
        self.wait_sessions(True)
        time.sleep(STARTED)
        return child

    def said(self, child):
        text = child.communicate(timeout=SECONDS)[0]
        self.assertEqual(child.returncode, 0, text + self.lab.logs())
        return text

    def kept(self):
        """How many descriptors the keeper has"""
        return kills_watch.descriptors(kills_watch.keeper_pid(self.lab.hosts['h1']))

    def kill(self, sessions=1):
        crashes = self.taken_over(self.host)['crashes']
        self.restart()
        seen = self.taken_over(self.host)
        self.assertEqual((seen['crashes'], seen['sessions'], seen['refused'], seen['saves']), (crashes + 1, sessions, 0, 1), seen)
        self.assertGreater(seen['gap_us'], 0)
        time.sleep(STARTED)

    def crash_on_records(self):
        """Kill daemons at once until one of them goes on without the program that waits. @return the program"""
        server = self.begin('h1', 'ib_write_bw', '-F', '-d', 'uroce0')
        for _ in range(AT_ONCE):
            test_restart.Restarting.restart(self)
            self.assertEqual(self.taken_over()['sessions'], 1)
        self.assertIsNone(server.poll())
        test_restart.Restarting.restart(self)
        self.assertIn(f"can't go on: {AT_ONCE + 1} daemons in a row have crashed on them", self.lab.logs())
        self.assertEqual(self.taken_over()['sessions'], 0)
        self.wait_idle()
        return server

    def to_its_end(self, *program, hosts=('h1',) * AT_ONCE):
        pair = subprocess.Popen([LAB, 'pair', '--name', self.lab.name, *program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)
        self.wait_sessions(True)
        time.sleep(STARTED)
        under = 0
        for self.host in hosts:
            self.restart()
            under += pair.poll() is None
            seen = self.taken_over(self.host)
            self.assertEqual((seen['refused'], seen['qps_lost']), (0, 0), seen)
            time.sleep(self.random.uniform(0, 1))
        said = pair.communicate(timeout=SECONDS)[0]
        self.assertEqual(pair.returncode, 0, said + self.lab.logs())
        self.assertGreater(under, 0, 'it ended before the first kill')
        return said


class Memif(Killing):
    options = (*MEMIF, SURVIVE)

    def test_a_server_that_waits_goes_on(self):
        """Its device, memory, queues and QPs, which its client connects and uses after the crash."""
        for name in ('ib_send_bw', 'ib_write_bw', 'ib_read_lat', 'ib_atomic_bw') if LONG else ('ib_send_bw', 'ib_atomic_bw'):
            with self.subTest(name):
                server = self.begin('h1', name, '-F', '-d', 'uroce0', '-n', '1000')
                self.kill()
                done = self.lab.run('h2', name, '-F', '-d', 'uroce0', '-n', '1000', '198.18.0.1', timeout=SECONDS)
                self.assertEqual(done.returncode, 0, done.stdout + self.lab.logs())
                self.said(server)
                self.wait_idle()

    def test_a_listener_of_rdma_cm_goes_on(self):
        server = self.begin('h1', 'rping', '-s', '-C', '20', '-V', '-a', '0.0.0.0', '-p', '7172')
        for _ in range(2):
            self.kill()
        done = self.lab.run('h2', 'rping', '-c', '-a', '198.18.0.1', '-p', '7172', '-V', '-C', '20', timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + self.lab.logs())
        self.said(server)

    def test_programs_that_begin_meanwhile_wait(self):
        host = self.lab.hosts['h1']
        old = daemon.started(host)
        old.signal(signal.SIGSTOP)
        child = subprocess.Popen([LAB, 'run', '--name', self.lab.name, 'h1', 'ibv_devinfo', '-d', 'uroce0'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
        time.sleep(STARTED)
        self.restart()
        self.assertIn('PORT_ACTIVE', self.said(child))

    def test_nothing_is_left_over(self):
        self.kill(sessions=0)
        self.wait_idle()
        before = self.descriptors(), self.kept()
        server = self.begin('h1', 'ib_write_bw', '-F', '-d', 'uroce0')
        self.kill()
        os.killpg(server.pid, signal.SIGKILL)
        self.wait_idle()
        self.kill(sessions=0)
        self.assertEqual((self.descriptors(), self.kept()), before)


class Connected(Killing):
    """Connections go on: no completion in error, none lost or twice, no wrong byte."""
    options = (*MEMIF, SURVIVE)
    only_long = ('test_programs_go_on', 'test_a_connection_of_rdma_cm_goes_on')

    def kill_under(self, program, kills=KILLS):
        pair = test_restart.Pair(self.lab.name, program)
        try:
            self.wait_sessions(True)
            for _ in range(kills):
                self.assertTrue(pair.running(), 'it ended too early')
                self.restart()
                seen = self.taken_over(self.host)
                self.assertEqual((seen['refused'], seen['qps_lost'], seen['sessions'] > 0), (0, 0, True), seen)
                time.sleep(self.random.uniform(0, 1))
            ran = pair.running()
        finally:
            said = pair.stop()
        self.assertTrue(ran, said + self.lab.logs())
        self.wait_idle()

    def test_programs_go_on(self):
        for program in PROGRAMS if LONG else (PROGRAMS[1], PROGRAMS[3]):
            with self.subTest(program[0]):
                self.kill_under(program)

    def test_a_connection_of_rdma_cm_goes_on(self):
        self.kill_under(RPING)

    @unittest.skipUnless(LONG, 'only with --long')
    def test_an_mpi_program_goes_on(self):
        self.under_mpi(KILLS)

    def test_what_arrived_was_right(self):
        """verify says so only at its end."""
        said = self.to_its_end(VERIFY, '-n', '2000', '-u', '16')
        self.assertEqual(said.count('were right'), 2, said)

    def test_a_stream_of_rsockets_goes_on(self):
        said = self.to_its_end(*RSTREAM, '--client', *RSTREAM, '-s', '{server}')
        self.assertNotIn('verification', said)


class OneEnd(Connected):
    """Each host has a daemon of its own, and one of them is killed. Its peer's retries cover the gap."""
    options = (*VETH, SURVIVE)

    def test_programs_go_on(self):
        self.kill_under(PROGRAMS[0])

    def test_a_connection_of_rdma_cm_goes_on(self):
        self.host = 'h2'
        self.kill_under(RPING)

    @unittest.skipUnless(LONG, 'only with --long')
    def test_an_mpi_program_goes_on_without_the_other_end(self):
        self.host = 'h2'
        self.under_mpi(KILLS)


@unittest.skipUnless(LONG, 'only with --long')
class AfXdp(Killing):
    """The kernel gives the queue and the XDP program of a dead daemon back by itself."""
    options = (*VETH, '--pmd', 'af_xdp', SURVIVE)

    def test_what_arrived_was_right(self):
        """On a busy machine a daemon's start may take longer than retries with a timeout of 16 cover."""
        said = self.to_its_end(VERIFY, '-n', '500', '-u', '18', hosts=('h1', 'h2', 'h1'))
        self.assertEqual(said.count('were right'), 2, said)


class AfXdpNotRoot(AfXdp):
    """There the broker of the dead daemon removes its program, but not that of the next one."""
    options = (*AfXdp.options, '--user', 'daemon')


class Again(Killing):
    options = (*MEMIF, SURVIVE)

    def test_records_on_which_daemons_crash_are_set_aside(self):
        self.crash_on_records()


class Ended(Killing):
    options = (*MEMIF, SURVIVE)

    def test_another_way_to_restart(self):
        """What has been handed over survives a crash as well."""
        server = self.begin('h1', 'ib_write_bw', '-F', '-d', 'uroce0')
        for self.how in ((), ('--kill',), ('--stop',), ('--kill',)):
            self.restart()
            seen = self.taken_over(self.host)
            self.assertEqual((seen['sessions'], seen['saves']), (1, 1), (self.how, seen, self.lab.logs()))
        done = self.lab.run('h2', 'ib_write_bw', '-F', '-d', 'uroce0', '198.18.0.1', timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + self.lab.logs())
        self.said(server)

    def test_nothing_of_daemons_that_have_ended_is_kept(self):
        """A keeper that was started beside a daemon that runs has none of EAL's descriptors; EAL's folders go."""
        self.how = ('--kill',)
        self.restart()
        before = self.kept()
        for self.how in ((), ('--kill',)):
            old = self.lab.pid('h1')
            self.restart()
            self.assertEqual(self.kept(), before, self.how)
            # Until somebody has reaped it, its number is in use.
            end = time.monotonic() + SECONDS
            while os.path.exists(f'/proc/{old}') and time.monotonic() < end:
                time.sleep(0.05)
        # That of the last one may be there until another daemon starts.
        folders = os.listdir(os.path.dirname(os.path.dirname(self.lab.hosts['h1']['telemetry'])))
        self.assertLessEqual(len(folders), 2, folders)


class NotRoot(Killing):
    """The daemons give up root's rights; their brokers must not remove what the next ones use."""
    options = (*MEMIF, SURVIVE, '--user', 'daemon')

    def test_a_server_that_waits_goes_on(self):
        if os.geteuid() != 0:
            raise Skip('needs root')
        server = self.begin('h1', 'ib_write_bw', '-F', '-d', 'uroce0')
        self.kill()
        done = self.lab.run('h2', 'ib_write_bw', '-F', '-d', 'uroce0', '198.18.0.1', timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + self.lab.logs())
        self.said(server)
        self.assertTrue(os.path.exists(self.lab.hosts['h1']['socket']))


class Without(Killing):
    options = MEMIF

    def test_programs_end(self):
        server = self.begin('h1', 'ib_write_bw', '-F', '-d', 'uroce0')
        self.restart()
        self.assertEqual(self.taken_over()['sessions'], 0)
        self.assertEqual(self.taken_over()['saves'], 0)
        self.wait_idle()
        self.assertTrue(Process.of(self.lab.hosts['h1']['pid_file']).alive())
        self.assertFalse(os.path.exists(self.lab.hosts['h1']['socket'] + '.keeper'))
        self.assertIsNotNone(server)


if __name__ == '__main__':
    sys.exit(main([word for word in sys.argv if word != '--long']))
