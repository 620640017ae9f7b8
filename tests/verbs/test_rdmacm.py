#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's rdma_cm programs between two hosts, the textbook's, a connection that a dying program leaves, and ports that nobody
listens on.

  tests/verbs/test_rdmacm.py [WIRE]          a selection of programs (cm_cases.py), on memif
  tests/verbs/test_rdmacm.py --all [WIRE]    all of them with every option
  tests/verbs/test_rdmacm.py --loss [WIRE]   each of them while five packets of a hundred are lost each way

WIRE is memif, af_packet or af_xdp. A server is ready when the daemon counts its listener: rdma_cm has no TCP port to look at.
"""

import os
import re
import shutil
import signal
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

import cm_cases  # noqa: E402
import matrix  # noqa: E402
from cmlab import IPV4, CmTest  # noqa: E402
from labs import main  # noqa: E402
from uroce_lab import daemon, impair, pairs  # noqa: E402
from uroce_lab.telemetry import ask  # noqa: E402

LOSS = '--loss' in sys.argv
MANY = LOSS or '--all' in sys.argv
WIRE = next((word for word in sys.argv[1:] if word in matrix.WIRES), 'memif')
CASES = cm_cases.lossy() if LOSS else cm_cases.everything() if MANY else cm_cases.selection()
END_SECONDS = 60 if LOSS else 5 # until a peer knows that a program has died
EXAMPLE = os.path.join(daemon.build_dir(), 'tests/verbs/cm_example')
LOAD = os.path.join(daemon.build_dir(), 'tests/verbs/cm_load')
CONNECTIONS, AT_ONCE = (10000, 2000) if MANY and not LOSS else (300, 100)
LOAD_SECONDS = 600
LEAK_BYTES = 65536          # what may be made once, at the first connection: tables, what malloc() holds for each thread
LEAK_FDS = 1
TIMEWAIT_SECONDS = 20       # more than the 8.6 s of CM_MAX_TIMEWAIT
TRIES = 5                   # of a program that asks too early
REFUSED_EARLY = 'RDMA_CM_EVENT_REJECTED; error: 8'


class RdmaCm(CmTest):
    NAME = f'c{os.getpid()}'
    OPTIONS = (*matrix.WIRES[WIRE], *(('--impair', 'loss=0.05') if LOSS else ()))
    # A MAD that is lost is sent again after 6 s (CMA_RESPONSE_TIMEOUT), as Linux does.
    PAIR_SECONDS = 240 if LOSS else 60
    LISTEN_SECONDS = PAIR_SECONDS / 3

    @classmethod
    def setUpClass(cls):
        if not shutil.which('rping'):
            raise unittest.SkipTest('rdmacm-utils is not installed')
        super().setUpClass()

    def ready(self, case, side):
        if case.ready:
            self.until(f'{case.server} does not say "{case.ready}"',
                       lambda: case.ready in side.text() or side.child.poll() is not None)
        else:
            self.until(case.server + ' does not listen',
                       lambda: self.cm('h1')['listeners'] > 0 or side.child.poll() is not None)

    def run_case(self, case):
        for tried in range(1, TRIES + 1):
            one, clients = self.run_once(case)
            early = case.early and any(REFUSED_EARLY in client.text() for client in clients)
            no_clock = tried < pairs.CLOCK_TRIES and pairs.clock_failed(one, *clients)
            if not early and not no_clock:
                break
        report = one.report() + ''.join(client.report() for client in clients) + self.lab.logs()
        self.assertEqual([client.status for client in clients], [0] * case.times, report)
        if case.ends:
            self.assertEqual(one.status, 0, report)
        # What a killed server leaves goes at once, too.
        self.until('ids are left', lambda: self.cm('h1')['ids'] == 0 and self.cm('h2')['ids'] == 0)

    def run_once(self, case):
        # Output by lines, so that it can be waited for.
        one = pairs.Side(self.lab, 'h1', ['stdbuf', '-oL', *case.server.split()])
        clients = []
        try:
            self.ready(case, one)
            for _ in range(case.times):
                clients.append(pairs.Side(self.lab, 'h2', case.client.split()))
                clients[-1].wait(time.monotonic() + self.PAIR_SECONDS)
            if case.ends and not any(client.status for client in clients):
                one.wait(time.monotonic() + self.PAIR_SECONDS)
        finally:
            for side in (one, *clients):
                side.kill()
        return one, clients

    def test_programs(self):
        for case in CASES:
            with self.subTest(client=case.client):
                start = time.monotonic()
                self.run_case(case)
            if MANY:
                print(f'{time.monotonic() - start:5.1f} s  {case.client}', flush=True)

    def example(self, mode):
        """The textbook's program; what it prints is the textbook's as well."""
        server = pairs.Side(self.lab, 'h1', [EXAMPLE, 'server', mode])
        try:
            self.until('no port', lambda: 'listening' in server.text() or server.child.poll() is not None)
            port = re.match(r'listening on port (\d+)\.', server.text())[1]
            client = self.lab.run('h2', EXAMPLE, 'client', mode, IPV4, port, timeout=self.PAIR_SECONDS)
            server.wait(time.monotonic() + self.PAIR_SECONDS)
        finally:
            server.kill()
        report = server.report() + client.stdout + self.lab.logs()
        self.assertEqual((server.status, client.returncode), (0, 0), report)
        act = {'write': 'writing message to', 'read': 'reading message from'}[mode]
        between = ['send completed successfully.', f'received MSG_MR. {act} remote memory...',
                   'send completed successfully.', 'send completed successfully.']
        self.assertEqual(re.sub(r'\d+', 'N', server.text()).splitlines(), [
            'listening on port N.', 'received connection request.', *between,
            'remote buffer: message from active/client side with pid N', 'peer disconnected.'], report)
        self.assertEqual(re.sub(r'\d+', 'N', client.stdout).splitlines(), [
            'address resolved.', 'route resolved.', *between,
            'remote buffer: message from passive/server side with pid N', 'disconnected.'], report)

    def test_textbook_writes(self):
        self.example('write')

    def test_textbook_reads(self):
        self.example('read')

    def load(self, *options):
        done = self.lab.run('h2', LOAD, 'client', IPV4, *options, timeout=LOAD_SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + self.lab.logs())
        if MANY:
            print(' '.join(options), ':', done.stdout.strip(), flush=True)
        return done.stdout

    def left(self, host):
        """What a host has when no connection is left: bytes in use of both heaps, and descriptors."""
        self.until(f'{host}: connections are left: {self.cm(host)}',
                   lambda: all(self.cm(host)[what] == 0
                               for what in ('ids', 'listeners', 'connections', 'half_open', 'kept', 'peers')),
                   TIMEWAIT_SECONDS)
        memory = ask(self.lab.data, self.lab.hosts[host], '/uroce/memory')
        return {**memory, 'fds': self.lab.descriptors(host)}

    @unittest.skipIf(LOSS, 'counts what a wire that loses changes')
    def test_many_connections_leave_nothing(self):
        before = {host: self.left(host) for host in self.lab.hosts}
        server = self.server(LOAD, 'server')
        try:
            self.load('-n', str(CONNECTIONS), '-w', '4')
            self.load('-n', str(AT_ONCE), '-w', '64', '-k')
        finally:
            server.kill()
        for host in self.lab.hosts:
            after = self.left(host)
            if MANY:
                print(f'{host}: {before[host]} -> {after}', flush=True)
            self.assertLess(after['heap_used'] - before[host]['heap_used'], LEAK_BYTES, (before, after))
            self.assertLess(after['dpdk_used'] - before[host]['dpdk_used'], LEAK_BYTES, (before, after))
            self.assertLess(after['fds'] - before[host]['fds'], LEAK_FDS, (before, after))

    @unittest.skipIf(LOSS, 'counts what a wire that loses changes')
    def test_flood_of_requests_is_refused_and_others_do_not_suffer(self):
        """Somebody listens and answers nobody; a connection that is there goes on."""
        backlog, flood = 50, 1000
        before = self.cm('h1')['cm']['rej_backlog']
        ping = self.server('rping', '-s', '-V', '-p', '7171')
        deaf = pairs.Side(self.lab, 'h1', [LOAD, 'server', '-d', '-b', str(backlog)])
        sides = [ping, deaf]
        try:
            self.until('nobody listens', lambda: self.cm('h1')['listeners'] == 2)
            pings = f'stdbuf -oL rping -c -V -v -C 3000 -p 7171 -a {IPV4}'
            sides.append(pairs.Side(self.lab, 'h2', pings.split()))
            self.until('no connection', lambda: 'rdma-ping-5:' in sides[2].text())
            told = self.cm('h2')['cm']['rx_mads']
            sides.append(pairs.Side(self.lab, 'h2', [LOAD, 'client', IPV4, '-n', str(flood), '-w', str(flood), '-r']))
            # A refusal that is lost would come once more when nobody listens any longer, and with another reason.
            self.until('nothing is refused', lambda: self.cm('h2')['cm']['rx_mads'] - told >= flood - backlog)
            self.assertGreaterEqual(self.cm('h1')['cm']['rej_backlog'] - before, flood - backlog)
            self.assertEqual(self.cm('h1')['half_open'], backlog)
            # Who waits for an answer of a program that dies gets one.
            deaf.kill()
            end = time.monotonic() + self.PAIR_SECONDS
            report = [side.report() for side in sides if side.wait(end) or True]
            self.assertEqual([side.status for side in sides if side is not deaf], [0, 0, 0], '\n'.join(report))
        finally:
            for side in sides:
                side.kill()
        self.assertIn(f'{flood} refused', sides[3].text())
        self.assertIn(f'reason 3: {flood - backlog}\n', sides[3].text())
        self.assertIn(f'reason 28: {backlog}\n', sides[3].text())

    def limit(self, host, settings):
        """Put lines of [daemon] in force there."""
        new = daemon.write_config(self.lab.data, self.lab.hosts[host], 'uroced.conf.new')
        with open(new, encoding='utf-8') as f:
            text = f.read()
        with open(new, 'w', encoding='utf-8') as f:
            f.write(text.replace('[daemon]\n', '[daemon]\n' + settings))
        impair.put_in_force(self.lab.data, self.lab.hosts[host], new)

    def test_a_program_that_connects_too_often_is_told_so(self):
        server = self.server(LOAD, 'server')
        try:
            self.limit('h2', 'session_max_connects = 2\n')
            done = self.lab.run('h2', LOAD, 'client', IPV4, '-n', '100', timeout=LOAD_SECONDS)
            self.limit('h2', '')
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertRegex(done.stdout, r'rdma_connect.*: Resource temporarily unavailable')
            self.assertRegex(self.lab.logs(), r'cm_load \(pid \d+, uid \d+\) wants more connections per second than '
                                              r'daemon\.session_max_connects = 2')
            self.load('-n', '20')
        finally:
            server.kill()

    def test_targets_take_initiators_only(self):
        side = self.server('rdma_xserver', '-c', 'x')
        try:
            done = self.lab.run('h2', 'rdma_xclient', '-s', IPV4, '-c', 'r')
        finally:
            side.kill()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('refused', done.stdout)

    def test_nobody_listens(self):
        done = self.lab.run('h2', 'rping', '-c', '-C', '1', '-a', IPV4)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('RDMA_CM_EVENT_REJECTED, error 8', done.stdout)

    def test_a_listener_on_loopback_is_there_for_its_own_host(self):
        for address in '127.0.0.1', '::1':
            side = self.server('rping', '-s', '-a', address)
            try:
                far = self.lab.run('h2', 'rping', '-c', '-C', '1', '-a', IPV4)
                near = self.lab.run('h1', 'rping', '-c', '-v', '-C', '3', '-a', address)
                side.wait(time.monotonic() + 10)
            finally:
                side.kill()
            self.assertIn('RDMA_CM_EVENT_REJECTED, error 8', far.stdout)
            self.assertEqual((near.returncode, side.status), (0, 0), near.stdout + side.report())
            self.assertEqual(near.stdout.count('ping data: rdma-ping'), 3)

    def test_address_that_nobody_has(self):
        done = self.lab.run('h2', 'rping', '-c', '-C', '1', '-a', '198.18.0.77')
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('RDMA_CM_EVENT_ADDR_ERROR', done.stdout)

    def test_peer_of_a_killed_program_hears_of_it_at_once(self):
        server = self.server('rping', '-s', '-v')
        client = pairs.Side(self.lab, 'h2', ['rping', '-c', '-v', '-a', IPV4])
        try:
            self.until('no connection', lambda: 'rdma-ping-5' in client.text())
            os.killpg(client.child.pid, signal.SIGKILL)
            self.assertTrue(server.wait(time.monotonic() + END_SECONDS), server.report())
            # By the DREQ, or because what it was about to read is gone already.
            self.assertRegex(server.text(), 'DISCONNECT|completion failed')
        finally:
            server.kill()
            client.kill()
        self.until('connections are left', lambda: self.cm('h1')['ids'] == 0 and self.cm('h2')['ids'] == 0)


if __name__ == '__main__':
    sys.exit(main([word for word in sys.argv if word not in ('--all', '--loss', *matrix.WIRES)]))
