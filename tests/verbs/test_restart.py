#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-lab restart: a new daemon takes over, and programs go on: no completion in error, no wrong byte, no connection lost.

  tests/verbs/test_restart.py            a minute
  tests/verbs/test_restart.py --long     each program under 30 restarts
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

import mpi_hosts  # noqa: E402
from labs import LAB, Skip, TestLab, lab_command, lacking, main  # noqa: E402
from uroce_lab import daemon, pairs, telemetry  # noqa: E402
from uroce_lab.state import State  # noqa: E402

VERIFY = os.path.join(daemon.build_dir(), 'tests/verbs/verify')
LONG = '--long' in sys.argv
RESTARTS = 30 if LONG else 1    # under each program
MORE = 30 if LONG else 3        # under one of them
PAUSE = 0.4                     # at most so many seconds from one restart to the next
STARTED = 1                     # seconds after which a pair runs
SECONDS = 100
MEMIF = ('--one-process',)
VETH = ('--wire', 'veth')
# Programs that end by themselves are given to do for longer than the restarts take.
PROGRAMS = [
    [VERIFY, '-n', '100000', '-u', '16'],
    ['ib_send_bw', '-d', 'uroce0', '-e', '-n', '3000000'],
    ['ib_atomic_bw', '-d', 'uroce0', '-D', '90'],
    ['ib_write_bw', '-d', 'uroce0', '-q', '16', '-D', '90'],
    ['ib_send_lat', '-d', 'uroce0', '-R', '-D', '90'],
]
MPI_PACKETS = 1000          # more than its start sends
RPING = ['rping', '-s', '-a', '0.0.0.0', '-V', '-C', '1000000', '--client', 'rping', '-c', '-a', '{server}', '-V', '-C', '1000000']


class Pair:
    """A pair of programs that runs until it is stopped; it must not end before."""

    def __init__(self, name, program):
        self.process = subprocess.Popen([LAB, 'pair', '--name', name, *program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, start_new_session=True)
        time.sleep(STARTED)

    def running(self):
        return self.process.poll() is None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=SECONDS)[0]


class Restarting(unittest.TestCase):
    options = MEMIF
    host = 'h1'
    how = ()                # further words of `uroce-lab restart`

    @classmethod
    def setUpClass(cls):
        reason = lacking(cls.options)
        if reason:
            raise Skip(reason)
        cls.lab = TestLab(f'u{os.getpid()}{cls.__name__[0].lower()}', cls.options)
        cls.random = random.Random(1)

    @classmethod
    def tearDownClass(cls):
        lab_command('down', '--name', cls.lab.name)

    def restart(self, status=0, **options):
        done = lab_command('restart', '--name', self.lab.name, *self.how, self.host, **options)
        self.assertEqual(done.returncode, status, done.stdout + self.lab.logs())
        self.lab.data = State(self.lab.name).load().data
        self.lab.hosts = {host['name']: host for host in self.lab.data['hosts']}
        return done.stdout

    def taken_over(self, host='h1'):
        return telemetry.ask(self.lab.data, self.lab.hosts[host], '/uroce/handover')

    def descriptors(self):
        return self.lab.descriptors(self.host)

    def wait_sessions(self, some):
        self.lab.wait_sessions(self.host, some)

    def wait_idle(self):
        self.wait_sessions(False)

    def under(self, program, restarts=RESTARTS):
        pair = Pair(self.lab.name, program)
        try:
            self.wait_sessions(True)
            for _ in range(restarts):
                self.assertTrue(pair.running(), 'it ended too early')
                self.restart()
                seen = self.taken_over()
                self.assertEqual((seen['refused'], seen['sessions'] > 0), (0, True), seen)
                time.sleep(self.random.uniform(0, PAUSE))
            ran = pair.running()
        finally:
            said = pair.stop()
        self.assertTrue(ran, said + self.lab.logs())

    def under_mpi(self, restarts=RESTARTS):
        """mpi.c compares what arrives, and says so at its end."""
        if why := mpi_hosts.lacking():
            raise Skip(why)
        with tempfile.TemporaryDirectory(prefix='uroce-mpi-') as folder:
            enough = os.path.join(folder, 'enough')
            before = mpi_hosts.packets(self.lab, self.host)
            mpirun = pairs.Side(self.lab, 'h1', mpi_hosts.openmpi(self.lab, folder, mpi_hosts.compiled(folder), enough))
            try:
                end = time.monotonic() + SECONDS
                while mpi_hosts.packets(self.lab, self.host) < before + MPI_PACKETS and mpirun.child.poll() is None and time.monotonic() < end:
                    time.sleep(0.05)
                for _ in range(restarts):
                    self.assertIsNone(mpirun.child.poll(), mpirun.report() + self.lab.logs())
                    self.restart()
                    seen = self.taken_over(self.host)
                    self.assertEqual((seen['refused'], seen['qps_lost'], seen['sessions'] > 0), (0, 0, True), seen)
                    time.sleep(self.random.uniform(0, PAUSE))
                self.assertIsNone(mpirun.child.poll(), mpirun.report() + self.lab.logs())
                with open(enough, 'w', encoding='ascii'):
                    pass
                mpirun.wait(time.monotonic() + SECONDS)
            finally:
                # mpirun ends what it has started on other hosts, if it is asked.
                mpirun.child.terminate()
                mpirun.wait(time.monotonic() + pairs.GRACE_SECONDS)
                mpirun.kill()
        self.assertEqual((mpirun.status, mpirun.timed_out), (0, False), mpirun.report() + self.lab.logs())
        self.assertIn('all right', mpirun.text())
        self.wait_idle()


class Memif(Restarting):
    def test_programs_go_on(self):
        for number, program in enumerate(PROGRAMS):
            with self.subTest(program[0]):
                self.under(program, RESTARTS if number else MORE)

    def test_a_connection_of_rdma_cm_goes_on(self):
        self.under(RPING)

    def test_an_mpi_program_goes_on(self):
        self.under_mpi()

    def test_what_arrived_was_right(self):
        """verify says so only at its end."""
        pair = subprocess.Popen([LAB, 'pair', '--name', self.lab.name, VERIFY, '-n', '800', '-u', '16'], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        time.sleep(STARTED)
        for _ in range(RESTARTS):
            self.restart()
        said = pair.communicate(timeout=SECONDS)[0]
        self.assertEqual(pair.returncode, 0, said + self.lab.logs())
        self.assertEqual(said.count('were right'), 2, said)

    def test_connections_are_made_between_restarts(self):
        server = subprocess.Popen([LAB, 'run', '--name', self.lab.name, 'h1', 'rping', '-s', '-P', '-a', '0.0.0.0', '-p', '7171'],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(STARTED)
            for _ in range(RESTARTS):
                again = subprocess.Popen([LAB, 'restart', '--name', self.lab.name, 'h1'], stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                while again.poll() is None:
                    done = self.lab.run('h2', 'rping', '-c', '-a', '198.18.0.1', '-p', '7171', '-V', '-C', '20')
                    self.assertEqual(done.returncode, 0, done.stdout + self.lab.logs())
                self.assertEqual(again.returncode, 0, again.communicate()[0])
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(SECONDS)
        self.lab.data = State(self.lab.name).load().data
        self.lab.hosts = {host['name']: host for host in self.lab.data['hosts']}

    def test_nothing_is_left_over(self):
        self.restart()
        self.wait_idle()
        before = self.descriptors()
        self.under([VERIFY, '-n', '100000'], 2)
        self.wait_idle()
        self.restart()
        self.assertEqual(self.descriptors(), before)

    def test_how_long_programs_waited(self):
        daemons = self.taken_over()['daemons']
        self.restart()
        seen = self.taken_over('h2')
        self.assertEqual((seen['daemons'], seen['sessions'], seen['qps'], seen['refused']), (daemons + 1, 0, 0, 0))
        self.assertGreater(seen['gap_us'], 0)

    def test_another_configuration_is_refused(self):
        """The running daemon goes on, with its programs."""
        pair = Pair(self.lab.name, PROGRAMS[0])
        try:
            pid = self.lab.pid('h1')
            config = os.path.join(self.lab.hosts['h1']['dir'], 'uroced.conf')
            with open(config, encoding='utf-8') as f:
                text = f.read()
            other = os.path.join(self.lab.hosts['h1']['dir'], 'other.conf')
            with open(other, 'w', encoding='utf-8') as f:
                f.write(text.replace('[port uroce0]', '[port uroce1]'))
            args = [self.lab.data['programs']['uroced'], '--lcores', daemon.lcores(self.lab.data, self.lab.hosts['h1']), '--no-pci', '--no-huge', '-m', '512', '--file-prefix',
                    self.lab.name, '--no-telemetry', '--', '--one-engine', '--config', other, '--config',
                    os.path.join(self.lab.hosts['h2']['dir'], 'uroced.conf'), '--take-over']
            done = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                                  timeout=SECONDS)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn('port 0 of the running daemon is uroce0, of this one uroce1', done.stdout)
            self.assertIn('goes on', done.stdout)
            self.assertEqual(self.lab.pid('h1'), pid)
            time.sleep(PAUSE)
            self.assertTrue(pair.running() and self.lab.whole())
        finally:
            said = pair.stop()
        self.assertNotIn('wrong', said)
        self.assertIn('This one goes on', self.lab.logs())


class Veth(Restarting):
    """Each host has a daemon of its own: only one of them is replaced."""
    options = VETH

    def test_one_end_is_replaced(self):
        self.under([VERIFY, '-n', '100000', '-u', '16'])

    def test_the_other_end_is_replaced(self):
        self.host = 'h2'
        self.under(RPING)

    @unittest.skipUnless(LONG, 'only with --long')
    def test_an_mpi_program_goes_on(self):
        self.host = 'h2'
        self.under_mpi()


class NotRoot(Restarting):
    """The daemons give up root's rights; their brokers must not remove what the next ones use."""
    options = (*MEMIF, '--user', 'daemon')

    def test_programs_go_on(self):
        if os.geteuid() != 0:
            raise Skip('needs root')
        self.under([VERIFY, '-n', '100000', '-u', '16'])
        self.assertTrue(os.path.exists(self.lab.hosts['h1']['socket']))

    def test_files_of_a_daemon_that_never_was_root(self):
        """Under systemd the old daemon is an ordinary user's from its start; root may start the new one."""
        if os.geteuid() != 0:
            raise Skip('needs root')
        host = self.lab.hosts['h1']
        subprocess.run(['chown', '-hR', 'daemon', host['socket'], host['socket'] + '.sys'], check=True)
        self.restart()
        with open(host['log'], encoding='utf-8') as f:
            self.assertNotIn("can't be written", f.read())
        with open(host['socket'] + '.sys/sys/class/infiniband/uroce0/ports/1/state', encoding='ascii') as f:
            self.assertEqual(f.read(), '4: ACTIVE\n')
        self.assertEqual(os.stat(host['socket'] + '.sys').st_uid, 0)


class Separate(Restarting):
    options = ()

    def test_memif_would_not_connect_again(self):
        self.assertIn('--one-process, or with --wire veth', self.restart(1))
        self.assertTrue(self.lab.whole())


class Alone(unittest.TestCase):
    def test_there_is_nobody_to_take_over_from(self):
        folder = f'/tmp/uroce-restart-{os.getpid()}'
        os.mkdir(folder)
        try:
            config = os.path.join(folder, 'uroced.conf')
            with open(config, 'w', encoding='utf-8') as f:
                f.write(f'[daemon]\nsocket = {folder}/sock\n[port uroce0]\nethdev = net_ring0\naddresses = 198.18.0.1/24\n')
            env = dict(os.environ, XDG_RUNTIME_DIR=folder)
            done = subprocess.run([os.path.join(daemon.build_dir(), 'app/uroced/uroced'), '--lcores', '0@0,1@0', '--no-pci', '--no-huge', '-m', '512',
                                   '--file-prefix', os.path.basename(folder), '--vdev', 'net_ring0', '--', '--config', config, '--take-over'],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=env,
                                  timeout=SECONDS)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(f'the daemon at {folder}/sock: there is none; start without --take-over', done.stdout)
        finally:
            subprocess.run(['rm', '-r', folder], check=True)


if __name__ == '__main__':
    sys.exit(main([word for word in sys.argv if word != '--long']))
