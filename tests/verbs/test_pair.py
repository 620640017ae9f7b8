#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-lab pair: when the clients start, what is printed, which status it has, and that nothing stays running."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import LAB, lab_up, main  # noqa: E402
from schemas import fits  # noqa: E402
from uroce_lab.pair import command_lines, filled  # noqa: E402
from uroce_lab.state import State, is_root  # noqa: E402

NAME = f'p{os.getpid()}'
OTHER = f'q{os.getpid()}'
SECONDS = 60
LATE_SERVER = 'import socket, time; time.sleep(1); s = socket.create_server(("", {port})); s.accept()[0].sendall(b"late")'
CLIENT = 'import socket; print(socket.create_connection(("{{server}}", {port})).recv(9).decode())'


def pair(*words, name=NAME):
    return subprocess.run([LAB, 'pair', '--name', name, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=SECONDS, check=False)


def running(mark):
    """@return whether a process has `mark` in its command line."""
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/cmdline', encoding='utf-8', errors='replace') as f:
                if mark in f.read().split('\0'):
                    return True
        except OSError:
            pass
    return False


class CommandLines(unittest.TestCase):
    def test_server_and_client(self):
        self.assertEqual(command_lines(['a', '-x']), (['a', '-x'], None))
        self.assertEqual(command_lines(['a', '--client', 'b', '-y']), (['a'], ['b', '-y']))

    def test_places_are_filled(self):
        self.assertEqual(filled(['{server}:1', '{rank}/{ranks}', '{other}'], {'server': 'S', 'rank': '0', 'ranks': '2'}),
                         ['S:1', '0/2', '{other}'])


class Pairs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.up = lab_up(name=NAME)
        cls.lab = cls.up.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.up.__exit__(None, None, None)

    def test_perftest_needs_no_more_than_its_name(self):
        done = pair('ib_write_bw', '-d', 'uroce0', '-n', '200')
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for host in ('h1', 'h2'):
            self.assertRegex(done.stdout, rf'(?m)^{host}: +65536 +200 ')
            self.assertRegex(done.stderr, rf'(?m)^{host}: ib_write_bw .*: status 0$')

    def test_a_report_of_a_pair(self):
        if not importlib.util.find_spec('matplotlib'):
            self.skipTest('matplotlib is not installed (package python3-matplotlib)')
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([LAB, 'report', '--name', NAME, '--interval', '0.05', folder, 'ib_write_bw', '-d', 'uroce0', '-D', '2'],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(os.path.join(folder, 'history.json'), encoding='utf-8') as f:
                record = fits(json.load(f), 'lab-history')
            with open(os.path.join(folder, 'index.html'), encoding='utf-8') as f:
                page = f.read()
        sent = {qp['host']: qp['samples'][-1][record['columns'].index('tx_bytes')] for qp in record['qps'] if qp['program'] == 'ib_write_bw'}
        self.assertGreater(sent['h2'], 65536)
        self.assertEqual({qp['peer'] for qp in record['qps']}, {'198.18.0.1', '198.18.0.2'})
        self.assertIn('<figure id="plot-lab">', page)
        self.assertIsNone(record['problem'])

    def test_a_client_with_a_command_line_of_its_own(self):
        """rping listens by rdma_cm, not by TCP."""
        begin = time.monotonic()
        done = pair('rping', '-s', '-C', '3', '-v', '--client', 'rping', '-c', '-a', '{server}', '-C', '3', '-v')
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn('h1: server ping data: rdma-ping-2', done.stdout)
        self.assertLess(time.monotonic() - begin, 15, 'the client waited in vain')

    def test_a_server_that_listens_late(self):
        port = self.lab.tcp_port()
        done = pair('python3', '-c', LATE_SERVER.format(port=port), '--client', 'python3', '-c', CLIENT.format(port=port))
        self.assertEqual((done.returncode, done.stdout), (0, 'h2: late\n'), done.stderr)

    def test_a_server_that_never_listens(self):
        done = pair('--wait', '0.2', 'sleep', '0.5', '--client', 'echo', 'here')
        self.assertEqual((done.returncode, done.stdout), (0, 'h2: here\n'), done.stderr)
        self.assertIn('no port listens after 0.2 s', done.stderr)

    def test_a_server_that_fails_at_once(self):
        done = pair('sh', '-c', 'echo why >&2; exit 3')
        self.assertEqual(done.returncode, 3)
        self.assertIn('h1: why\n', done.stderr)
        self.assertIn('h2: was not started', done.stderr)

    def test_a_client_that_fails_ends_the_server(self):
        mark = f'3{os.getpid()}'
        done = pair('--wait', '0.1', 'sleep', mark, '--client', 'sh', '-c', 'kill -SEGV $$')
        self.assertEqual(done.returncode, 128 + signal.SIGSEGV)
        self.assertIn('SIGSEGV', done.stderr)
        self.assertIn('stopped, it was still running', done.stderr)
        self.assertFalse(running(mark))

    def test_a_limit_of_time(self):
        done = pair('--wait', '0.1', '--timeout', '0.5', 'sleep', '100', '--client', 'sleep', '100')
        self.assertEqual(done.returncode, 1)

    def test_an_interrupt_ends_both(self):
        mark = f'4{os.getpid()}'
        child = subprocess.Popen([LAB, 'pair', '--name', NAME, '--ranks', 'sh', '-c', 'echo up; exec sleep "$0"', mark],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertTrue(child.stdout.readline().endswith('up\n'))
        self.assertTrue(running(mark))
        child.send_signal(signal.SIGINT)
        output = child.communicate(timeout=SECONDS)
        self.assertEqual(child.returncode, 128 + signal.SIGINT, output)
        self.assertFalse(running(mark))

    def test_ranks(self):
        done = pair('--ranks', 'sh', '-c', 'echo $RANK of $WORLD_SIZE {rank} {ranks} $MASTER_ADDR')
        self.assertEqual(done.returncode, 0, done.stderr)
        address = self.lab.tcp_address('h1')
        self.assertEqual(sorted(done.stdout.splitlines()), [f'h1: 0 of 2 0 2 {address}', f'h2: 1 of 2 1 2 {address}'])

    def test_what_can_not_be(self):
        for words, said in ((['--hosts', '1', 'true'], 'at least 2'), (['--hosts', '3', 'true'], 'has 2'),
                            (['true', '--client'], 'between two programs'), (['--ranks', 'a', '--client', 'b'], 'no --client')):
            done = pair(*words)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn(said, done.stderr)
        self.assertEqual(pair().returncode, 2)
        self.assertTrue(self.lab.whole())


class WithoutALab(unittest.TestCase):
    def raised_for(self, *options):
        done = pair(*options, 'echo', 'here', name=OTHER)
        self.assertIn('raising it for this run', done.stderr)
        self.assertFalse(os.path.exists(State(OTHER).dir))
        return done

    def test_one_is_raised_for_the_run(self):
        done = self.raised_for('--ranks')
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(is_root(), 'more than two hosts need root')
    def test_four_hosts(self):
        done = self.raised_for('--hosts', '4', '--ranks')
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())), (0, [f'h{i}: here' for i in range(1, 5)]), done.stderr)


if __name__ == '__main__':
    sys.exit(main())
