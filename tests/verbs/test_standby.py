#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-lab restart --kill in labs with a standby: a daemon is killed, and the second one goes on with its programs within a moment.

  tests/verbs/test_standby.py            some minutes
  tests/verbs/test_standby.py --long     each program under 40 kills

It prints how long nobody served the programs.
"""

import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

import labs  # noqa: E402
import test_crash  # noqa: E402
import test_restart  # noqa: E402
from test_crash import LONG, SURVIVE  # noqa: E402
from test_restart import MEMIF, SECONDS, VETH  # noqa: E402
from uroce_lab import LabError, daemon, restart, telemetry, wires  # noqa: E402
from uroce_lab.state import Process, State, lock  # noqa: E402

STANDBY = (SURVIVE, '--standby')
GAP_MS = 300
GAP_OPEN_MS = 150           # where the port needn't be opened first
CM_LOAD = os.path.join(daemon.build_dir(), 'tests/verbs/cm_load')
IDLE = 5000 if LONG else 500    # connections in each direction that nobody uses
IDLE_SECONDS = 25 if LONG else 8
IDLE_GAP_MS = 1000


def part_of(times, part):
    """@return the percentile of sorted times"""
    return times[math.ceil(part * len(times)) - 1]


def niceness(pid):
    """@return the nice values of a process's threads, and of its session"""
    threads = set()
    for task in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{task}/stat', encoding='ascii', errors='replace') as f:
            threads.add(int(f.read().rpartition(')')[2].split()[16]))
    try:
        with open(f'/proc/{pid}/autogroup', encoding='ascii') as f:
            return threads, f.read().split()[-1]
    except FileNotFoundError:
        return threads, '0'


class Standing:
    """A second daemon has EAL ready. With test_crash.Killing."""
    most_ms = GAP_MS
    gaps = []               # ms from when the keeper has noticed the crash
    whole = []              # ms from the kill, which includes the end of the process

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gaps, cls.whole = [], []

    @classmethod
    def tearDownClass(cls):
        for what, times in ('nobody served for', sorted(cls.gaps)), ('with the end of the process', sorted(cls.whole)):
            if times:
                print(f'{cls.__name__}: {len(times)} kills, {what} {part_of(times, 0.5):.0f} ms (p50), {part_of(times, 0.99):.0f} ms (p99), '
                      f'{times[-1]:.0f} ms (longest)')
        super().tearDownClass()
        # Of one kill it may be longer, if others need the processors.
        if cls.gaps and part_of(sorted(cls.gaps), 0.5) > cls.most_ms:
            raise AssertionError(f'{cls.__name__}: gaps of {cls.gaps} ms')

    def restart(self, status=0, **options):
        before = self.lab.pid(self.host), self.standby().pid
        nice = niceness(before[1])
        said = super().restart(status, **options)
        if status:
            return said
        after = self.lab.pid(self.host), self.standby().pid
        self.assertEqual(after[0], before[1], said)
        self.assertNotIn(after[1], (0, *before))
        self.assertTrue(self.standby().alive() and self.lab.whole(), self.lab.logs())
        # It was in a hurry until it served.
        self.assertEqual(niceness(after[0]), nice)
        type(self).gaps.append(self.taken_over(self.host)['gap_us'] / 1000)
        type(self).whole.append(float(re.search(r'serves after ([0-9.]+) s', said)[1]) * 1000)
        return said

    def standby(self):
        return Process.of(self.lab.hosts[self.host]['pid_file'] + daemon.STANDBY)


class Memif(Standing, test_crash.Connected):
    """Both ends at once."""
    options = (*MEMIF, *STANDBY)
    only_long = ()
    # As without a standby.
    test_a_stream_of_rsockets_goes_on = test_an_mpi_program_goes_on = None


class Veth(Standing, test_crash.OneEnd):
    """The standby has opened its device of net_af_packet before."""
    options = (*VETH, *STANDBY)
    most_ms = GAP_OPEN_MS
    only_long = ('test_what_arrived_was_right',)
    test_a_stream_of_rsockets_goes_on = test_an_mpi_program_goes_on = test_an_mpi_program_goes_on_without_the_other_end = None

    def test_an_interface_that_was_made_anew_meanwhile(self):
        """What the standby has opened is of the old one."""
        self.how = ('--kill',)
        wires.run('ip', '-n', self.lab.hosts['h1']['namespace'], 'link', 'del', wires.IFACE['veth'])
        wires.join(self.lab.data)
        self.restart()
        type(self).gaps.pop()
        type(self).whole.pop()
        server = self.begin('h1', 'ib_write_bw', '-F', '-d', 'uroce0')
        done = self.lab.run('h2', 'ib_write_bw', '-F', '-d', 'uroce0', '198.18.0.1', timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + self.lab.logs())
        self.said(server)


class Idle(Standing, test_crash.Killing):
    """Connections that nobody uses at the moment are taken along, and the others don't wait long for it."""
    options = (*VETH, *STANDBY)
    most_ms = IDLE_GAP_MS

    def load(self, host, *args):
        return self.begin(host, CM_LOAD, *args)

    def connections(self, host):
        return telemetry.ask(self.lab.data, self.lab.hosts[host], '/uroce/cm')['connections']

    def open_all(self):
        for i in (1, 2):
            self.load(f'h{i}', 'server', '-p', f'748{i}')
        clients = [self.load(f'h{3 - i}', 'client', f'198.18.0.{i}', '-p', f'748{i}', '-n', str(IDLE), '-w', '8', '-k', '-s', str(IDLE_SECONDS)) for i in (1, 2)]
        end = time.monotonic() + SECONDS
        while any(self.connections(host) < 2 * IDLE for host in ('h1', 'h2')) and time.monotonic() < end:
            self.assertTrue(all(client.poll() is None for client in clients), self.lab.logs())
            time.sleep(0.1)
        return clients

    def test_idle_connections_are_taken_along(self):
        clients = self.open_all()
        for by_standby in True, False:
            if by_standby:
                self.restart()
            else:
                self.how = ()
                test_crash.Killing.restart(self)
            seen = self.taken_over(self.host)
            self.assertEqual((seen['qps'], seen['refused'], seen['qps_lost']), (2 * IDLE, 0, 0), seen)
        for client in clients:
            self.assertIn(f'{IDLE} connections opened, {IDLE} used, 0 refused, all closed', self.said(client))


class Ends(test_crash.Killing):
    options = (*MEMIF, *STANDBY)

    def standby(self):
        return Process.of(self.lab.hosts['h1']['pid_file'] + daemon.STANDBY)

    def stand_by(self):
        with lock():
            state = State(self.lab.name).load()
            restart.stand_by(state, state.data['hosts'][0])

    def test_one_that_crashes_is_forgotten(self):
        server = self.begin('h1', 'ib_write_bw', '-F', '-d', 'uroce0')
        old = self.standby()
        old.signal(signal.SIGKILL)
        self.until(lambda: not old.alive())
        self.stand_by()
        self.kill()
        done = self.lab.run('h2', 'ib_write_bw', '-F', '-d', 'uroce0', '198.18.0.1', timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + self.lab.logs())
        self.said(server)

    def test_there_is_one_and_it_is_told_to_end(self):
        standby = self.standby()
        with self.assertRaisesRegex(LabError, 'another standby waits at .*keeper already'):
            self.stand_by()
        self.write_pid(standby)
        standby.signal(signal.SIGTERM)
        self.until(lambda: not standby.alive())
        self.assertTrue(self.lab.whole())
        self.stand_by()

    def test_it_takes_over_by_itself(self):
        """Nobody has restarted anything."""
        server = self.begin('h1', 'ib_write_bw', '-F', '-d', 'uroce0')
        standby = self.standby()
        Process.of(self.lab.hosts['h1']['pid_file']).signal(signal.SIGKILL)
        done = self.lab.run('h2', 'ib_write_bw', '-F', '-d', 'uroce0', '198.18.0.1', timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + self.lab.logs())
        self.said(server)
        self.assertEqual(daemon.serving(self.lab.hosts['h1']).pid, standby.pid)
        seen = labs.lab_command('status', '--name', self.lab.name)
        self.assertEqual(seen.returncode, 0, seen.stdout)
        self.assertIn(f'uroced pid {standby.pid}', seen.stdout)
        # The next restart makes a lab with a standby of it again.
        self.how = ()
        self.restart()
        self.assertTrue(self.standby().alive())

    def test_it_ends_with_a_daemon_that_ends_properly(self):
        """`restart` starts another one for the next daemon."""
        for self.how in ((), ('--stop',)):
            old = self.standby()
            self.restart()
            self.assertFalse(old.alive())
            self.assertTrue(self.standby().alive())
        with open(self.lab.hosts['h1']['log'], encoding='utf-8', errors='replace') as log:
            self.assertEqual(log.read().count('the daemon has ended properly, and with it its standby'), 2)

    def test_records_on_which_daemons_crash_are_set_aside(self):
        server = self.crash_on_records()
        os.killpg(server.pid, signal.SIGKILL)
        # It serves programs that come now.
        server = self.begin('h1', 'ib_write_bw', '-F', '-d', 'uroce0')
        done = self.lab.run('h2', 'ib_write_bw', '-F', '-d', 'uroce0', '198.18.0.1', timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + self.lab.logs())
        self.said(server)

    def test_another_configuration_is_applied(self):
        """Which the standby hadn't read when it began."""
        config = os.path.join(self.lab.hosts['h1']['dir'], 'uroced.conf')
        with open(config, encoding='utf-8') as f:
            text = f.read()
        with open(config, 'w', encoding='utf-8') as f:
            f.write(text.replace('[daemon]\n', '[daemon]\nhello_timeout = 77\n'))
        with open(self.lab.hosts['h1']['log'], encoding='utf-8', errors='replace') as log:
            log.seek(0, os.SEEK_END)
            Process.of(self.lab.hosts['h1']['pid_file']).signal(signal.SIGKILL)
            said = []
            self.until(lambda: said.append(log.read()) or 'configuration read again: 1 key changed' in ''.join(said))
        self.how = ()
        self.restart()

    def write_pid(self, process):
        """That of one that was refused is there."""
        with open(self.lab.hosts['h1']['pid_file'] + daemon.STANDBY, 'w', encoding='ascii') as f:
            f.write(f'{process.pid} {process.started}\n')

    def until(self, done):
        end = time.monotonic() + SECONDS
        while not done() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertTrue(done(), self.lab.logs())


class Wrong(unittest.TestCase):
    def standby(self, folder, *options):
        env = dict(os.environ, XDG_RUNTIME_DIR=folder, RUNTIME_DIRECTORY=folder)
        done = subprocess.run([os.path.join(daemon.build_dir(), 'app/uroced/uroced'), '--lcores', '0@0,1@0', '--no-pci', '--no-huge', '-m', '512', '--file-prefix',
                               os.path.basename(folder), '--', '--socket', f'{folder}/sock', '--set', 'port uroce0.ethdev=net_ring0', '--set',
                               'port uroce0.addresses=198.18.0.1/24', '--standby', *options],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=env, timeout=SECONDS)
        return done.returncode, done.stdout

    def test_what_it_needs(self):
        with tempfile.TemporaryDirectory(prefix='uroce-standby-') as folder:
            for options, status, said in (((SURVIVE, '30'), 1, f'there is no keeper at {folder}/sock.keeper: start the daemon that serves first'),
                                          ((), 1, 'only with daemon.survive_crash'),
                                          ((SURVIVE, '30', '--take-over'), 2, '--standby and --take-over')):
                found = self.standby(folder, *options)
                self.assertEqual(found[0], status, found)
                self.assertIn(said, found[1])

    def test_a_lab_that_has_none(self):
        for options, said in ((('--standby',), 'give that as well'), ((*STANDBY, '--wire', 'memif', '--no-one-process'), 'does not connect again')):
            done = labs.lab_command('up', '--name', f'{labs.NAME}n', *options)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(said, done.stdout)


class NotRoot(Standing, test_crash.NotRoot):
    options = (*test_crash.NotRoot.options, '--standby')


if __name__ == '__main__':
    sys.exit(labs.main([word for word in sys.argv if word != '--long']))
