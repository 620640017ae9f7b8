#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-perf runs every operation in every arrangement, checks the data that arrived, and says what is wrong with wrong options.

The figures are not judged here: scripts/bench does that, on a quiet machine. Usage: test_perf.py PATH-OF-UROCE-PERF
"""
import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PERF = ''
CPUS = sorted(os.sched_getaffinity(0))
SHORT = ['--seconds', '0.1', '--warmup', '0.02', '--iterations', '500']
ENOUGH_S = 60


def eal(cpus, prefix):
    lcores = ','.join(f'{i}@{cpu}' for i, cpu in enumerate(cpus))
    return ['--lcores', lcores, '--no-huge', '-m', '384', '--no-pci', '--no-shconf', '--no-telemetry', '--file-prefix',
            f'test-perf-{os.getpid()}-{prefix}', '--log-level=lib.eal:warning']


def two_cpus():
    return [CPUS[0], CPUS[1 % len(CPUS)]]


def perf(*words, vdevs=(), cpus=None):
    return subprocess.run([PERF, *eal(cpus or two_cpus(), 'one'), *vdevs, '--', *SHORT, *words], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=ENOUGH_S, check=False)


def free_tcp_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Runs(unittest.TestCase):
    def figures(self, *words):
        result = perf('--brief', *words)
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        return dict(pair.split('=') for pair in result.stdout.split() if '=' in pair)

    def test_the_separator_may_be_left_out(self):
        done = subprocess.run([PERF, *SHORT, '--size=64', '--brief'], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=ENOUGH_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('size=64 ', done.stdout)
        done = subprocess.run([PERF, '--no-huge', '--size', '64'], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=ENOUGH_S, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('--size must stand behind a --', done.stderr)

    def test_every_operation_in_process_and_by_shared_memory(self):
        for role in ('pair', 'shm'):
            for op in ('write', 'send', 'read', 'fetch_add', 'cmp_swap'):
                with self.subTest(role=role, op=op):
                    self.assertGreater(float(self.figures('--role', role, '--op', op)['ops_per_s']), 0)
                    self.assertGreater(float(self.figures('--role', role, '--op', op, '--test', 'latency')['median_us']), 0)

    def test_a_rate_test_ends_after_a_number_of_operations(self):
        for op in ('write', 'read'):
            with self.subTest(op=op):
                done = int(self.figures('--op', op, '--operations', '5000', '--seconds', '0', '--one-core')['ops'])
                self.assertTrue(5000 <= done < 6000, done)

    def test_the_figures_say_whether_assertions_are_checked(self):
        for words in ([], ['--test', 'latency'], ['--test', 'memcpy', '--size', '4096', '--memory', '8M']):
            with self.subTest(words=words):
                self.assertIn(self.figures(*words)['assertions'], ('on', 'off'))

    def test_the_figures_say_whether_there_were_enough_cores(self):
        for cpus, words, pollers in ((CPUS[:1] * 2, [], 2), (CPUS[:1] * 2, ['--role', 'shm'], 2), (CPUS[:1], ['--one-core'], 1)):
            with self.subTest(cpus=cpus, words=words):
                done = perf('--brief', *words, cpus=cpus)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, rf'pollers={pollers} cores=1 late_turns=\d')
        line = r'^2 pollers on 1 core, \d+ late turns?: the figures suffer from threads that wait for a core$'
        self.assertRegex(perf(cpus=CPUS[:1] * 2).stdout, re.compile(line, re.MULTILINE))

    def test_long_messages_many_qps_inline_and_ipv6(self):
        for words in (['--op', 'write', '--size', '100001', '--mtu', '1024', '--depth', '4'],
                      ['--op', 'read', '--size', '65536', '--depth', '8', '--memory', '4M'],
                      ['--op', 'send', '--size', '5000', '--qps', '16', '--depth', '8'],
                      ['--op', 'write', '--size', '64', '--inline', '64', '--qps', '4'],
                      ['--op', 'write', '--qps', '20000', '--active', '7', '--depth', '4'],
                      ['--op', 'send', '--qps', '3000', '--depth', '2'],
                      ['--op', 'send', '--size', '0'],
                      ['--op', 'write', '--ipv6']):
            with self.subTest(words=words):
                self.assertGreater(float(self.figures(*words)['ops_per_s']), 0)

    def test_a_bad_wire_loses_packets_and_the_data_is_right(self):
        done = perf('--brief', '--one-core', '--size', '20000', '--depth', '8',
                    vdevs=['--vdev', 'net_impair0,port=net_memif0,loss=0.01', '--vdev=net_impair1,loss=0.01,port=net_memif1'])
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn('ops_per_s', done.stdout)

    def test_a_bad_wire_that_can_not_be_is_named(self):
        for vdev, words in (('net_impair0,port=net_memif0,loss=2', ['net_impair0', 'loss=2', 'from 0 to 1']),
                            ('net_impair0,loss=0.1', ['net_impair0', 'port= is missing']),
                            ('net_impair0,port=net_memif7', ['net_memif7', 'net_memif1'])):
            with self.subTest(vdev=vdev):
                done = perf('--one-core', vdevs=['--vdev', vdev])
                self.assertEqual(done.returncode, 1, done.stdout)
                for word in words:
                    self.assertIn(word, done.stderr)

    def test_both_hosts_on_one_core(self):
        self.assertGreater(float(self.figures('--one-core')['cycles_initiator']), 0)

    def test_two_processes(self):
        port = str(free_tcp_port())
        for op in ('write', 'send', 'read'):
            with self.subTest(op=op), tempfile.TemporaryDirectory() as folder:
                def command(role, number, *words):
                    vdev = f'net_memif0,role={role},id=0,bsize=4352,socket={folder}/memif.sock,socket-abstract=no'
                    return [PERF, *eal([two_cpus()[number]], role), '--vdev', vdev, '--', *SHORT, '--op', op, '--role', role, '--port',
                            'net_memif0', '--tcp-port', port, '--address', f'198.18.0.{number + 1}/24', *words]
                server = subprocess.Popen(command('server', 0), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True)
                try:
                    for _ in range(100):
                        if os.path.exists(f'{folder}/memif.sock'):
                            break
                        time.sleep(0.1)
                    client = subprocess.run(command('client', 1, '--peer', '127.0.0.1', '--brief'), stdin=subprocess.DEVNULL,
                                            capture_output=True, text=True, timeout=ENOUGH_S, check=False)
                    said = server.communicate(timeout=ENOUGH_S)[0]
                finally:
                    server.kill()
                self.assertEqual(client.returncode, 0, client.stderr + said)
                self.assertEqual(server.returncode, 0, said)
                self.assertRegex(client.stdout, r'ops_per_s=[1-9]')

    def test_baselines(self):
        self.assertGreater(float(self.figures('--test', 'memcpy', '--size', '4096', '--memory', '8M')['GB_per_s']), 0)
        if len(CPUS) > 1:
            self.assertGreater(float(self.figures('--test', 'ring')['round_trip_ns']), 0)

    def test_wrong_options_are_named(self):
        for words, what in ((['--op', 'push'], r'--op push: must be one of write send'),
                            (['--size', '12x'], r'--size 12x: must be a number from 0'),
                            (['--operations', '0'], r'--operations 0: must be a number from 1'),
                            (['--depth', '0'], r'--depth 0: must be a number from 1'),
                            (['--mtu', '1500'], r'--mtu: must be 256, 512'),
                            (['--op', 'fetch_add', '--size', '16'], r'--size: atomics have 8 bytes'),
                            (['--signal', '200', '--depth', '100'], r'--signal: must be at most --depth'),
                            (['--role', 'client', '--port', 'x', '--address', '1.2.3.4/24'], r'needs --peer'),
                            (['--role', 'server'], r'need --port'),
                            (['--engines', '8'], r'needs 16 lcores'),
                            (['--qps', '65537'], r'--qps 65537: must be a number from 1 to 65536'),
                            (['--qps', '32769', '--role', 'shm'], r'--qps: at most 32768 here: a host has 65536'),
                            (['--qps', '7', '--active', '8'], r'--active: must be at most --qps'),
                            (['--qps', '7', '--active', '3', '--test', 'latency'], r'--active: latency tests'),
                            (['--role', 'server', '--port', 'net_nobody', '--address', '198.18.0.1/24'], r'port net_nobody'),
                            (['nonsense'], r'nonsense: no such option')):
            with self.subTest(words=words):
                result = perf(*words)
                self.assertEqual(result.returncode, 1)
                self.assertRegex(result.stderr, re.compile(what))


if __name__ == '__main__':
    PERF = os.path.abspath(sys.argv.pop(1))
    with tempfile.TemporaryDirectory() as home:
        os.environ['XDG_RUNTIME_DIR'] = home
        try:
            unittest.main(verbosity=2)
        finally:
            # EAL leaves its run-time folders behind; root's aren't in XDG_RUNTIME_DIR.
            for folder in glob.glob(f'/var/run/dpdk/test-perf-{os.getpid()}-*'):
                shutil.rmtree(folder, ignore_errors=True)
