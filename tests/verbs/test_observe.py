#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a running daemon says of real programs: why their QPs are stuck, what goes over its port, what the log has of QPs that fail."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import lab_command, lab_up, main  # noqa: E402
from uroce_lab import LabError, pairs  # noqa: E402
from uroce_lab.telemetry import ask  # noqa: E402

NAME = f'o{os.getpid()}'
SECONDS = 20


class Observed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.up = lab_up(name=NAME)
        cls.lab = cls.up.__enter__()
        cls.gid = str(cls.lab.gid_index('h1', 4))
        cls.sides = []

    @classmethod
    def tearDownClass(cls):
        cls.up.__exit__(None, None, None)

    def tearDown(self):
        for side in self.sides:
            side.kill()
        self.sides.clear()
        for host in ('h1', 'h2'):
            self.eventually(lambda host=host: self.ask(host, '/uroce/qp')['all'] == 0, 'the QPs go with their programs')
        self.assertTrue(self.lab.whole(), 'a daemon ended:\n' + self.lab.logs())

    def ask(self, host, command):
        return ask(self.lab.data, self.lab.hosts[host], command)

    def eventually(self, true, what):
        end = time.monotonic() + SECONDS
        while not true():
            self.assertLess(time.monotonic(), end, f'{what}: not after {SECONDS} s\n' + self.lab.logs()
                            + ''.join(side.report() for side in self.sides))
            time.sleep(0.05)

    def impair(self, settings):
        done = lab_command('impair', '--name', NAME, 'all', settings)
        self.assertEqual(done.returncode, 0, done.stdout)

    def start(self, *program):
        """A server on h1 and its client on h2, both at work."""
        program = [*program, '-x', self.gid]
        port = self.lab.tcp_port()
        self.sides.append(pairs.start_server(self.lab, program, port))
        self.sides.append(pairs.start_client(self.lab, program, port))
        self.connected('h2')

    def connected(self, host):
        self.eventually(lambda: self.ask(host, '/uroce/qp,state=RTS')['all'] > 0, 'they connect')

    def qpn(self, host):
        return self.ask(host, '/uroce/qp')['numbers'][0]

    def pid(self, host):
        return self.ask(host, f'/uroce/qp,{self.qpn(host)}')['pid']

    def expect_why(self, host, *parts):
        """One of the sentences of a QP of that host has one of the parts."""
        qpn, said = self.qpn(host), set()

        def says():
            said.update(why := self.ask(host, f'/uroce/qp,{qpn}')['why'])
            return any(part in line for part in parts for line in why)

        end = time.monotonic() + SECONDS
        while not says():
            self.assertLess(time.monotonic(), end, f'{host} never says {parts}, but:\n' + '\n'.join(sorted(said)))
            time.sleep(0.02)

    def signal_program(self, host, number):
        os.kill(self.pid(host), number)

    def test_a_pingpong_that_is_stopped_in_the_midst_says_why(self):
        program = ['ibv_rc_pingpong', '-d', pairs.DEVICE, '-n', '100000000', '-g', self.gid]
        port = self.lab.tcp_port()
        self.sides.append(pairs.start_server(self.lab, program, port))
        self.eventually(lambda: self.ask('h1', '/uroce/qp,state=INIT')['all'] == 1, 'the server has a QP')
        self.expect_why('h1', 'INIT: it takes no packets until the program moves it to RTR')
        self.sides.append(pairs.start_client(self.lab, program, port))
        self.connected('h2')
        self.what_there_is()
        # Either program stops: it has something to poll, and its peer waits for it.
        for stopped, waits in (('h1', 'h2'), ('h2', 'h1')):
            self.signal_program(stopped, signal.SIGSTOP)
            self.expect_why(stopped, 'completions to poll')
            self.expect_why(waits, 'nothing to send: the program has posted no work')
            self.signal_program(stopped, signal.SIGCONT)
        self.captures()
        # The host doesn't answer.
        os.kill(self.lab.pid('h1'), signal.SIGSTOP)
        try:
            self.expect_why('h2', 'waiting for the ACK of PSN', 'nothing to send')
        finally:
            os.kill(self.lab.pid('h1'), signal.SIGCONT)
        # The wire loses everything: one of the two sends, and gives up.
        qpns = {host: self.qpn(host) for host in ('h1', 'h2')}
        self.impair('loss=1')
        try:
            self.eventually(lambda: any(self.gave_up(host, qpns[host]) for host in qpns), 'somebody gives up')
        finally:
            self.impair('none')

    def gave_up(self, host, qpn):
        """The log says so, and so does the daemon, though the QP may be gone."""
        with open(self.lab.hosts[host]['log'], encoding='utf-8') as f:
            if f'QP {qpn:#x} (RC, ibv_rc_pingpong pid' not in (log := f.read()):
                return False
        self.assertIn('ERR: no answer from the peer: gave up at PSN', log)
        return True

    def what_there_is(self):
        qp = self.ask('h2', f'/uroce/qp,{self.qpn("h2")}')
        self.assertEqual((qp['program'], qp['type'], qp['state'], qp['peer']), ('ibv_rc_pingpong', 'RC', 'RTS', '198.18.0.1'))
        self.assertEqual(qp['dest_qpn'], self.qpn('h1'))
        session = self.ask('h2', f'/uroce/session,{qp["session"]}')
        self.assertEqual((session['program'], session['qps'], session['mrs'], session['device']), ('ibv_rc_pingpong', 1, 1, 'uroce0'))
        self.assertEqual(self.ask('h2', f'/uroce/cq,{qp["send_cq"]}')['session'], qp['session'])
        keys = self.ask('h2', f'/uroce/mr,session={qp["session"]}')
        self.assertEqual(keys['all'], 1)
        self.assertEqual(self.ask('h2', f'/uroce/mr,{keys["numbers"][0]}')['length'], 4096)
        self.assertEqual(self.ask('h2', '/uroce/qp,program=other')['all'], 0)
        for wrong in ('/uroce/qp,colour=red', '/uroce/qp,state=LOST', '/uroce/cq,state=RTS', '/uroce/mr,x'):
            with self.assertRaisesRegex(LabError, 'give a number, or filters of: from'):
                self.ask('h2', wrong)
        engine = self.ask('h2', '/uroce/engine,0')
        self.assertGreater(engine['load']['busy_cycles'], 0)
        self.assertEqual(engine['depths']['qps'], 1)

    def received(self, host):
        return self.ask(host, '/uroce/engine,0')['transport']['rx_send_requests']

    def test_a_peer_that_posts_no_receives(self):
        before = self.received('h1')
        self.start('ib_send_bw', '-d', pairs.DEVICE, '-s', '64', '--run_infinitely')
        # Before that either may still wait for the other over TCP.
        self.eventually(lambda: self.received('h1') > before, 'the client sends')
        self.signal_program('h1', signal.SIGSTOP)
        self.expect_why('h2', 'has no receive posted', 'no receive WQE is posted at the peer (credits 0)')
        self.expect_why('h1', 'the peer sends, but no receive is posted in the RQ', 'no receive is posted in the RQ')

    def test_reads_wait_for_places(self):
        self.start('ib_read_bw', '-d', pairs.DEVICE, '-s', '65536', '-o', '1', '--run_infinitely')
        self.expect_why('h2', '1 READs and atomics are outstanding, 1 may be (max_rd_atomic)', 'the congestion window is full')

    def capture(self, options, packets):
        path = os.path.join(self.lab.data['dir'], options.translate(str.maketrans(',=', '--')) + '.pcapng')
        self.assertEqual(self.ask('h2', f'/uroce/capture,start,{path},{options}')['running'], 'yes')
        self.eventually(lambda: self.ask('h2', '/uroce/capture')['packets'] >= packets, 'packets are captured')
        with self.assertRaisesRegex(LabError, 'runs already'):
            self.ask('h2', f'/uroce/capture,start,{path}')
        self.assertEqual(self.ask('h2', '/uroce/capture,stop')['running'], 'no')
        return self.tshark(path)

    def captures(self):
        if not shutil.which('tshark'):
            return
        qpns = {self.qpn('h1'), self.qpn('h2')}
        whole = self.capture('port=uroce0', 200)
        seen = [int(p['layers']['infiniband_bth_destqp'][0], 16) for p in whole if 'infiniband_bth_destqp' in p['layers']]
        self.assertEqual(set(seen), qpns)
        self.assertFalse([p for p in whole if '_ws_malformed' in p['layers']])
        self.impair('corrupt=0.2')
        bad = self.capture(f'qp={self.qpn("h2")},snap=128', 200)
        self.impair('none')
        self.assertIn('dropped: rx_icrc_encapsulated', {p['layers']['frame_comment'][0] for p in bad if 'frame_comment' in p['layers']})

    def test_captures_have_what_programs_of_one_host_send_each_other(self):
        program = ['ib_write_bw', '-d', pairs.DEVICE, '-s', '65536', '--run_infinitely', '-x', self.gid]
        port = self.lab.tcp_port()
        self.sides.append(pairs.Side(self.lab, 'h2', pairs.with_port(program, port)))
        self.eventually(lambda: self.sides[0].listens(port), 'the server listens')
        self.sides.append(pairs.Side(self.lab, 'h2', [*pairs.with_port(program, port), self.lab.tcp_address('h2')]))
        by_reference = lambda: self.ask('h2', '/uroce/engine,0')['transport']['tx_by_reference']  # noqa: E731
        self.eventually(lambda: by_reference() > 1000, 'packets go by reference')
        if not shutil.which('tshark'):
            return
        qpns = set(self.ask('h2', '/uroce/qp')['numbers'])
        whole = self.capture('port=uroce0,snap=128', 200)
        self.assertEqual({int(p['layers']['infiniband_bth_destqp'][0], 16) for p in whole}, qpns)
        self.assertFalse([p for p in whole if '_ws_malformed' in p['layers'] or 'frame_comment' in p['layers']])
        # Both directions of a QP, and it goes on without the capture.
        one = self.capture(f'qp={min(qpns)},snap=99', 200)
        self.assertEqual({int(p['layers']['infiniband_bth_destqp'][0], 16) for p in one}, qpns)
        before = by_reference()
        self.eventually(lambda: by_reference() > before + 1000, 'packets go by reference')

    def tshark(self, path):
        done = subprocess.run(['tshark', '-r', path, '-T', 'ek', '-e', 'frame.protocols', '-e', 'frame.comment', '-e',
                               'infiniband.bth.destqp', '-e', '_ws.malformed'], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotRegex(done.stderr, 'cut short|damaged|corrupt|appears')
        return [row for row in map(json.loads, done.stdout.splitlines()) if 'layers' in row]


if __name__ == '__main__':
    sys.exit(main())
