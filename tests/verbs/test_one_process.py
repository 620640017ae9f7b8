#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Both hosts of a lab in one daemon process, whose threads take turns at running one engine for each host.

  tests/verbs/test_one_process.py       half a minute
"""

import os
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

import test_impair  # noqa: E402
from labs import lab_command, main  # noqa: E402
from uroce_lab import pairs  # noqa: E402

PAIRS = 4                   # of programs at once
QUIET_SECONDS = 2
QUIET_SHARE = 0.01          # of a core; a tick of the clock is 0.005 of QUIET_SECONDS
LATENCY_PROGRAMS = (('ib_send_lat',), ('ib_write_lat',), ('ib_read_lat',), ('ib_atomic_lat',), ('ib_send_lat', '-e'))


class OneProcess(test_impair.OneLab):
    up_options = ('--one-process',)

    def test_both_hosts_have_one_daemon(self):
        self.assertEqual(self.lab.pid('h1'), self.lab.pid('h2'))

    def test_latency_programs(self):
        for program in LATENCY_PROGRAMS:
            self.debian(program[0], ' '.join((*program[1:], '-n 2000')))

    def test_data_arrives_as_it_was(self):
        for family in (4, 6):
            self.verify(family=family)

    def test_bandwidth_programs(self):
        for program in ('ib_write_bw', 'ib_read_bw', 'ib_send_bw'):
            self.debian(program, '-n 2000 -q 4')
        self.debian('ib_send_bw', '-c UD -n 1000')

    def test_more_programs_than_cpus(self):
        command = ['ib_write_bw', '-F', '-d', pairs.DEVICE, '-x', self.gids[4], '-D', '3', '-s', '4096', '-p']
        base = self.lab.tcp_port()
        servers = {port: pairs.Side(self.lab, 'h1', [*command, str(port)]) for port in range(base, base + PAIRS)}
        end = time.monotonic() + pairs.LISTEN_SECONDS
        while not all(server.listens(port) for port, server in servers.items()):
            self.assertLess(time.monotonic(), end, 'a server does not listen')
            time.sleep(0.05)
        clients = [pairs.Side(self.lab, 'h2', [*command, str(port), self.lab.tcp_address('h1')]) for port in servers]
        end = time.monotonic() + test_impair.PAIR_SECONDS
        for side in [*clients, *servers.values()]:
            ended = side.wait(end)
            side.kill()
            self.assertTrue(ended and (side.status == 0 or pairs.NO_CLOCK in side.text()), side.report() + self.lab.logs())

    def test_each_host_has_its_own_wire_and_telemetry(self):
        self.impair('loss=0.02', 'h2')
        try:
            self.verify('-n', '200')
            counters = self.counters()
            self.assertGreater(counters['h2']['lost'], 0)
            self.assertFalse(counters['h1']['settings'])
        finally:
            self.impair('none', 'h2')
        for number, host in enumerate(('h1', 'h2')):
            self.assertEqual(self.ask(host, '/uroce/port,uroce0')['ethdev'], f'net_memif{number}')

    def test_a_daemon_without_work_takes_no_time(self):
        time.sleep(0.5)
        before = self.cpu_seconds()
        time.sleep(QUIET_SECONDS)
        # Clock ticks are counted: without rounding two of them are more than 0.02 s.
        self.assertLessEqual(round(self.cpu_seconds() - before, 3), QUIET_SHARE * QUIET_SECONDS)

    def cpu_seconds(self):
        with open(f'/proc/{self.lab.pid("h1")}/stat', encoding='utf-8') as f:
            fields = f.read().rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


class Options(unittest.TestCase):
    def test_hosts_of_one_process_have_one_engine(self):
        done = lab_command('up', '--name', f'v{os.getpid()}', '--one-process', '--engines', '2')
        self.assertEqual(done.returncode, 1)
        self.assertIn('--engines 2', done.stdout)

    def test_only_memif_wires_join_hosts_of_one_process(self):
        done = lab_command('up', '--name', f'v{os.getpid()}', '--one-process', '--wire', 'veth')
        self.assertEqual(done.returncode, 1)
        self.assertIn('--one-process', done.stdout)
        self.assertIn('--wire memif', done.stdout)


if __name__ == '__main__':
    sys.exit(main())
