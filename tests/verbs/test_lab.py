#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/uroce-lab itself: what it passes through, what it refuses, what it leaves behind."""

import contextlib
import glob
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import LAB, lab_command, lab_up, main  # noqa: E402
from schemas import fits  # noqa: E402
from uroce_lab import LabError, pairs  # noqa: E402
from uroce_lab.lab import huge_file, ring_hugepages  # noqa: E402
from uroce_lab.state import HUGEPAGES, State, all_names, is_root, lock  # noqa: E402

NAME = f'l{os.getpid()}'
OTHER = f'o{os.getpid()}'
MAP_HUGETLB = 0x40000
HELD_PAGES = 8
HUGEPAGES_SECONDS = 10      # until the kernel has the pages of a process that was killed


def command_lines():
    for path in glob.glob('/proc/[0-9]*/cmdline'):
        with contextlib.suppress(OSError), open(path, encoding='utf-8', errors='replace') as f:
            yield f.read().replace('\0', ' ')


def traces(name):
    """Everything that a lab of this name has outside of itself."""
    paths = [State(name).dir]
    paths += [f'{where}/uroce-{name}-{host}' for where in ('/run/netns', '/var/run/dpdk') for host in ('h1', 'h2')]
    found = [path for path in paths if os.path.exists(path)]
    with open('/proc/self/mounts', encoding='utf-8') as f:
        found += [line for line in f if f'/{name}/' in line]
    return found + [line for line in command_lines() if f'--file-prefix uroce-{name}-h' in line or
                    'hugepages_up' in line and f'/{name}/' in line]


def number_in(path):
    try:
        with open(path, encoding='ascii') as f:
            return int(f.read())
    except FileNotFoundError:
        return 0


def hugepages():
    """
    Those that the system's pool keeps, without those that labs which are up have added. No lab comes or goes meanwhile. Surplus pages are not the pool's:
    a program of any lab may use some for as long as it runs, if another lab has taken its pages back.
    """
    with lock():
        kept = number_in(f'{HUGEPAGES}/nr_hugepages') - number_in(f'{HUGEPAGES}/surplus_hugepages')
        return kept - sum(number_in(huge_file({'dir': State(name).dir})) for name in all_names())


class ProgramsInPairs(unittest.TestCase):
    """perftest gives up where its own clock misled it; anything else that fails has failed."""

    def outcomes(self, *texts):
        """What run_pair() makes of pairs whose clients say this, '': nothing, with status 0."""
        made = [pairs.Pair(unittest.mock.Mock(status=0, timed_out=False, text=lambda: ''),
                           unittest.mock.Mock(status=1 if text else 0, timed_out=False, text=lambda text=text: text), 1)
                for text in texts]
        with unittest.mock.patch.object(pairs, 'run_pair_once', side_effect=made) as once:
            return pairs.run_pair(None, ['ib_write_bw'], 1).ok, once.call_count

    def test_run_again_when_the_clock_failed(self):
        clock = f'Correlation coefficient r^2: 0.875 < 0.9\n{pairs.NO_CLOCK}\n'
        self.assertEqual(self.outcomes(''), (True, 1))
        self.assertEqual(self.outcomes(clock, ''), (True, 2))
        self.assertEqual(self.outcomes(clock, clock, clock, ''), (False, 3))
        self.assertEqual(self.outcomes('Failed status 12', ''), (False, 1))


class NothingStays(unittest.TestCase):
    def hugepages_are(self, before):
        end = time.monotonic() + HUGEPAGES_SECONDS
        while (now := hugepages()) > before:
            self.assertLess(time.monotonic(), end, f'{before} hugepages before, now {now}')
            time.sleep(0.05)


class Locks(unittest.TestCase):
    @unittest.skipUnless(is_root(), "only root has hugepages and root folders")
    def test_labs_of_other_root_folders_wait_for_each_other(self):
        """Each has a /run of its own; hugepages they share."""
        other = ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', 'mount -t tmpfs none /run && exec "$@"', 'sh', LAB]
        with lock():
            first = subprocess.Popen([*other, 'down', '--name', OTHER], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            with self.assertRaises(subprocess.TimeoutExpired):
                first.wait(1)
        with first:
            self.assertIn(b'not up', first.stdout.read())


class Pages(NothingStays):
    @unittest.skipUnless(is_root(), 'only root has hugepages')
    def test_each_lab_leaves_the_pages_of_the_others(self):
        """Programs take pages for their queues whenever they like, also between the moment a daemon's are counted and its start."""
        for name in (NAME, OTHER):
            self.addCleanup(lab_command, 'down', '--name', name)
            self.assertEqual(lab_command('up', '--no-one-process', '--name', name).returncode, 0)
        if not all(State(name).load().data['hugepages'] for name in (NAME, OTHER)):
            self.skipTest('no hugepages here')
        end = time.monotonic() + HUGEPAGES_SECONDS
        while True:
            with lock():
                free, others = number_in(f'{HUGEPAGES}/free_hugepages') - number_in(f'{HUGEPAGES}/resv_hugepages'), ring_hugepages()
            if free >= others:
                break
            # Programs of a lab that has just gone are ending: the pages that they give back took the place of these.
            self.assertLess(time.monotonic(), end, f'{free} pages are free, the programs of all labs may take {others}')
            time.sleep(0.05)

    @unittest.skipUnless(is_root(), 'only root has hugepages')
    def test_pages_that_outlive_their_lab_go_back_to_the_kernel(self):
        """A program that ends after its lab has surplus pages, and meanwhile other labs come and go."""
        pages = hugepages()
        for name in (NAME, OTHER):
            self.addCleanup(lab_command, 'down', '--name', name)
        self.assertEqual(lab_command('up', '--name', NAME).returncode, 0)
        if not State(NAME).load().data['hugepages']:
            self.skipTest('no hugepages here')
        held = mmap.mmap(-1, HELD_PAGES << 21, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | MAP_HUGETLB)
        with held:
            for page in range(HELD_PAGES):
                held[page << 21] = 1
            self.assertEqual(lab_command('down', '--name', NAME).returncode, 0)
            self.assertEqual(lab_command('up', '--name', OTHER).returncode, 0)
            self.assertTrue(State(OTHER).load().data['hugepages'])
            self.assertEqual(lab_command('down', '--name', OTHER).returncode, 0)
        self.hugepages_are(pages)


class Refusals(NothingStays):
    def refused(self, words, *args, status=1):
        done = lab_command(*args)
        self.assertEqual(done.returncode, status, done.stdout)
        for word in words:
            self.assertIn(word, done.stdout)
        self.assertEqual(traces(OTHER), [])

    def test_a_lab_that_is_not_up(self):
        for command in (['status'], ['down'], ['run']):
            rest = ['h1', 'true'] if command == ['run'] else []
            self.refused(['not up', 'uroce-lab up'], *command, '--name', OTHER, *rest)

    def test_a_reader_that_stops_is_no_error(self):
        for program in (LAB, os.path.join(os.path.dirname(LAB), 'bench')):
            with self.subTest(program=program):
                reader, writer = os.pipe()
                os.close(reader)
                with os.fdopen(writer, 'w') as gone:
                    done = subprocess.run([program, '--help'], stdout=gone, stderr=subprocess.PIPE, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ''))

    def test_options_that_can_not_be(self):
        self.refused(['lab name', 'lower-case'], 'up', '--name', 'No!')
        self.refused(['exactly 2 hosts', '--wire veth'], 'up', '--name', OTHER, '--hosts', '3')
        self.refused(['--hosts 1', '2 to'], 'up', '--name', OTHER, '--hosts', '1')
        self.refused(['--mtu 99', '1280 to'], 'up', '--name', OTHER, '--mtu', '99')
        self.refused(['--engines 0'], 'up', '--name', OTHER, '--engines', '0')
        self.refused(['--pmd', '--wire veth'], 'up', '--name', OTHER, '--pmd', 'af_xdp')
        if is_root():
            self.refused(['--engines 2', 'af_packet'], 'up', '--name', OTHER, '--wire', 'veth', '--pmd', 'af_xdp', '--engines', '2')
        self.refused(['memif', 'veth'], 'up', '--name', OTHER, '--wire', 'string', status=2)
        self.refused(['which program'], 'run', '--name', OTHER, 'h1', status=2)

    @unittest.skipIf(is_root(), 'root may')
    def test_veth_without_root(self):
        self.refused(['needs root', 'memif'], 'up', '--name', OTHER, '--wire', 'veth')

    def test_a_daemon_that_refuses_takes_everything_with_it(self):
        pages = hugepages()
        self.refused(['impair', 'uroced of h'], 'up', '--name', OTHER, '--impair', 'gravity=1')
        self.hugepages_are(pages)

    def test_an_interrupted_up_leaves_nothing(self):
        pages = hugepages()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            for delay in (0.05, 0.1, 0.2, 0.3):
                with self.subTest(signal=number, delay=delay):
                    up = subprocess.Popen([LAB, 'up', '--name', OTHER], stdout=subprocess.DEVNULL,
                                          stderr=subprocess.DEVNULL, start_new_session=True)
                    time.sleep(delay)
                    up.send_signal(number)
                    status = up.wait()
                    if number == signal.SIGKILL or status == 0:
                        lab_command('down', '--name', OTHER)
                    self.assertEqual(traces(OTHER), [])
                    self.hugepages_are(pages)

    @staticmethod
    def up_with(folder, program, script):
        """@return an `uroce-lab up' that has just begun to run this script in the place of a program"""
        begun, slow = os.path.join(folder, 'begun'), os.path.join(folder, program)
        with open(slow, 'w', encoding='utf-8') as f:
            f.write(f'#!/bin/sh\ntouch {begun}\n{script}')
        os.chmod(slow, 0o755)
        up = subprocess.Popen([LAB, 'up', '--name', OTHER], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**os.environ, 'PATH': f'{folder}:{os.environ["PATH"]}'})
        while not os.path.exists(begun) and up.poll() is None:
            time.sleep(0.01)
        return up

    @unittest.skipUnless(is_root(), 'only root makes namespaces')
    def test_an_interrupted_up_waits_for_what_it_has_begun(self):
        with tempfile.TemporaryDirectory() as folder:
            up = self.up_with(folder, 'ip', f'(sleep 0.7; exec {shutil.which("ip")} "$@") &\nwait $!\n')
            up.send_signal(signal.SIGINT)
            up.wait()
            # What was begun would be through by then.
            time.sleep(1)
        self.assertEqual(traces(OTHER), [])

    @unittest.skipUnless(is_root(), 'only root has hugepages to reserve and namespaces to make')
    def test_down_waits_for_what_a_killed_up_has_begun(self):
        pages = hugepages()
        for program in ('unshare', 'ip'):
            with self.subTest(program=program), tempfile.TemporaryDirectory() as folder:
                ended = os.path.join(folder, 'ended')
                up = self.up_with(folder, program, f'sleep 1\n{shutil.which(program)} "$@"\nstatus=$?\ntouch {ended}\nexit $status\n')
                up.kill()
                up.wait()
                self.assertEqual(lab_command('down', '--name', OTHER).returncode, 0)
                self.assertTrue(os.path.exists(ended), f'down did not wait for {program}')
            self.assertEqual(traces(OTHER), [])
            self.hugepages_are(pages)


class Running(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.up = lab_up(name=NAME)
        cls.lab = cls.up.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.up.__exit__(None, None, None)
        if traces(NAME):
            raise AssertionError(f'down left {traces(NAME)}')

    def start(self, *program, **options):
        return subprocess.Popen(self.lab.command('h1', *program), **options)

    def test_status_says_that_it_is_up(self):
        done = lab_command('status', '--name', NAME)
        self.assertEqual(done.returncode, 0)
        for word in ('h1', 'h2', '198.18.0.1', 'fd00:18::2', 'memif'):
            self.assertIn(word, done.stdout)
        done = lab_command('status', '--name', NAME, '--json')
        self.assertEqual(done.returncode, 0)
        lab = fits(json.loads(done.stdout), 'lab')
        self.assertEqual([(host['name'], host['running'], host['ipv4']) for host in lab['hosts']], [('h1', True, '198.18.0.1'), ('h2', True, '198.18.0.2')])

    def test_a_second_up_is_refused_and_harms_nothing(self):
        done = lab_command('up', '--name', NAME)
        self.assertEqual(done.returncode, 1)
        self.assertIn('already up', done.stdout)
        self.assertTrue(self.lab.whole())

    def test_an_unknown_host(self):
        done = lab_command('run', '--name', NAME, 'h3', 'true')
        self.assertEqual(done.returncode, 1)
        self.assertIn('h1, h2', done.stdout)

    def test_exit_status(self):
        self.assertEqual(self.start('sh', '-c', 'exit 42').wait(), 42)

    def test_death_by_signal(self):
        self.assertEqual(self.start('sh', '-c', 'kill -ABRT $$').wait(), -signal.SIGABRT)

    def test_a_program_that_is_not_there(self):
        done = lab_command('run', '--name', NAME, 'h1', '/nonexistent/program')
        self.assertEqual(done.returncode, 127)
        self.assertIn('/nonexistent/program', done.stdout)

    def test_signals_reach_the_program(self):
        child = self.start('sh', '-c', 'trap "exit 7" USR1; echo ready; while :; do sleep 0.05; done',
                           stdout=subprocess.PIPE)
        self.assertEqual(child.stdout.readline(), b'ready\n')
        child.send_signal(signal.SIGUSR1)
        self.assertEqual(child.wait(10), 7)
        child.stdout.close()

    def test_streams_are_the_callers(self):
        done = subprocess.run(self.lab.command('h2', 'sh', '-c', 'cat; echo error >&2'), input=b'through\n',
                              capture_output=True, check=True)
        self.assertEqual((done.stdout, done.stderr), (b'through\n', b'error\n'))

    def test_a_program_that_hangs_is_reported(self):
        with self.assertRaisesRegex(LabError, r'no end after 1 s; it said\nthis\n(.|\n)*uroced\.log'):
            self.lab.run('h1', 'sh', '-c', 'echo this; exec sleep 100', timeout=1)

    def test_sigpipe_has_its_default(self):
        child = self.start('sh', '-c', 'kill -PIPE $$; exit 3')
        self.assertEqual(child.wait(), -signal.SIGPIPE)

    def test_arguments_arrive_as_given(self):
        done = self.lab.run('h1', 'printf', '[%s]', '--name', 'a b', '', '*')
        self.assertEqual(done.stdout, '[--name][a b][][*]')

    def test_both_hosts_have_their_device(self):
        for host in ('h1', 'h2'):
            done = self.lab.run(host, 'ibv_devinfo', '-d', 'uroce0')
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn('PORT_ACTIVE', done.stdout)
            self.assertEqual(self.lab.gid_index(host, 4) != self.lab.gid_index(host, 6), True)


class Ending(NothingStays):
    def test_a_daemon_that_died_is_seen_and_down_cleans_up(self):
        pages = hugepages()
        with lab_up(name=NAME) as lab:
            os.kill(lab.pid('h2'), signal.SIGKILL)
            end = time.monotonic() + 10
            while lab.whole() and time.monotonic() < end:
                time.sleep(0.01)
            done = lab_command('status', '--name', NAME)
            self.assertEqual(done.returncode, 1)
            self.assertIn('NOT RUNNING', done.stdout)
            done = lab_command('status', '--name', NAME, '--json')
            self.assertEqual(done.returncode, 1)
            self.assertEqual([host['running'] for host in fits(json.loads(done.stdout), 'lab')['hosts']], [True, False])
            done = lab_command('run', '--name', NAME, 'h2', 'true')
            self.assertEqual(done.returncode, 1)
            self.assertIn('has ended', done.stdout)
            self.assertEqual(lab_command('down', '--name', NAME).returncode, 0)
            self.assertEqual(traces(NAME), [])
            self.hugepages_are(pages)
            lab_command('up', '--name', NAME, '--no-one-process')

    def test_three_hosts_on_a_bridge_have_three_addresses(self):
        with lab_up('--wire', 'veth', '--hosts', '3', name=NAME) as lab:
            for index in (1, 2, 3):
                done = lab.run(f'h{index}', 'ibv_devinfo', '-v', '-d', 'uroce0')
                self.assertIn(f'198.18.0.{index}', done.stdout)
        self.assertEqual(traces(NAME), [])


if __name__ == '__main__':
    sys.exit(main())
