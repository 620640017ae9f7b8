#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The MTU of a port changes while programs run: by the kernel's interface (veth), or by the configuration (memif)."""

import json
import os
import re
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import lab_up, main  # noqa: E402
from uroce_lab import daemon, pairs  # noqa: E402
from uroce_lab.telemetry import ask  # noqa: E402

NAME = f'm{os.getpid()}'
COMMAND = os.path.join(daemon.build_dir(), 'app/uroce/uroce')
VERIFY = os.path.join(daemon.build_dir(), 'tests/verbs/verify')
INTERFACE = 'roce0'
LAB_MTU = 4200
SECONDS = 20
GIVE_UP_SECONDS = 90        # retries of a QP with timeout 18 and retry_cnt 7 take at least 9


class Lab(unittest.TestCase):
    options = ()

    def setUp(self):
        up = lab_up(*self.options, name=NAME)
        self.lab = up.__enter__()
        self.addCleanup(up.__exit__, None, None, None)
        self.gid = str(self.lab.gid_index('h1', 4))

    def wait(self, what, *args, seconds=SECONDS):
        end = time.monotonic() + seconds
        while not what(*args):
            self.assertLess(time.monotonic(), end, f'{what.__name__}{args}\n{self.lab.logs()}')
            time.sleep(0.02)

    def active_mtu(self, host):
        """As programs see it, and the same in telemetry and in `uroce link`."""
        text = self.lab.run(host, 'ibv_devinfo', '-d', pairs.DEVICE).stdout
        mtu = int(re.search(r'active_mtu:\s*(\d+)', text)[1])
        link = json.loads(self.lab.run(host, COMMAND, '--json', 'link', 'show').stdout)
        told = ask(self.lab.data, self.lab.hosts[host], '/uroce/port,uroce0')['mtu']
        return mtu if mtu == told == link[0]['mtu'] else (mtu, told, link[0]['mtu'])

    def mtu_is(self, host, mtu):
        return self.active_mtu(host) == mtu

    def counter(self, host, name):
        return ask(self.lab.data, self.lab.hosts[host], '/uroce/engine,0')['transport'][name]

    def verify(self, *options):
        pair = pairs.run_pair(self.lab, [VERIFY, '-x', self.gid, '-n', '3', *options], SECONDS)
        self.assertTrue(pair.ok, pair.report() + self.lab.logs())

    def writer(self, *options):
        """Runs until it is ended."""
        program = ['ib_write_bw', '-d', pairs.DEVICE, '-x', self.gid, '-D', '60', '-s', '65536', '-u', '18', *options]
        server = pairs.start_server(self.lab, program)
        client = pairs.start_client(self.lab, program)
        for side in (server, client):
            self.addCleanup(side.kill)
        self.wait(lambda: self.counter('h2', 'tx_packets') > 1000)
        return server, client

    def reload(self, host, mtu):
        """Configure another MTU; None: the device's own."""
        entry = self.lab.hosts[host]
        before = ask(self.lab.data, entry, '/uroce/config')['reloads']
        self.lab.reload(host, 'mtu', mtu)
        self.wait(lambda: ask(self.lab.data, entry, '/uroce/config')['reloads'] > before)

    def refused(self, path_mtu, active, ip_mtu):
        """A program that connects a QP with a path MTU that is too large is told so."""
        pair = pairs.run_pair(self.lab, [VERIFY, '-x', self.gid, '-m', str(path_mtu)], SECONDS)
        self.assertFalse(pair.ok)
        self.assertIn(f'path_mtu is {path_mtu} bytes, but the active MTU of uroce0 is {active} (IP MTU {ip_mtu})', pair.report())


class Veth(Lab):
    options = ('--wire', 'veth', '--pmd', 'af_packet')

    def interface(self, mtu, hosts=('h1', 'h2')):
        for host in hosts:
            subprocess.run(['ip', '-n', f'uroce-{NAME}-{host}', 'link', 'set', 'dev', INTERFACE, 'mtu', str(mtu)], check=True)

    def test_the_active_mtu_follows_the_interface(self):
        watch = pairs.Side(self.lab, 'h1', ['ibv_asyncwatch', '-d', pairs.DEVICE])
        self.addCleanup(watch.kill)
        self.wait(lambda: 'async event FD' in watch.text())
        self.assertEqual(self.active_mtu('h1'), 4096)
        for mtu, roce in (1500, 1024), (4500, 4096), (2300, 2048), (9000, 4096), (1400, 1024):
            self.interface(mtu)
            for host in ('h1', 'h2'):
                self.wait(self.mtu_is, host, roce)
            self.verify('-m', str(roce))
        self.refused(4096, 1024, 1400)
        logs = self.lab.logs()
        self.assertIn('uroce0: MTU 1500 instead of 4200: RoCE MTU 1024, before 4096', logs)
        # Linux's drivers raise no event either.
        self.assertNotIn('IBV_EVENT', watch.text())
        # Too small for anything.
        self.interface(300, ['h1'])
        self.wait(self.mtu_is, 'h1', 256)
        self.assertIn('uroce0: MTU 300 is too small for RoCE v2', self.lab.logs())

    def test_a_connection_goes_on_when_the_mtu_is_back_and_fails_if_not(self):
        server, client = self.writer()
        self.interface(1500, ['h2'])
        self.wait(lambda: self.counter('h2', 'tx_too_long') > 0)
        qpn = ask(self.lab.data, self.lab.hosts['h2'], '/uroce/qp')['numbers'][0]
        why = self.lab.run('h2', COMMAND, 'why', str(qpn)).stdout
        self.assertIn("its path MTU is 4096, but its port has MTU 1500, which permits 1024: packets that don't fit are dropped (tx_too_long)", why)
        self.interface(LAB_MTU, ['h2'])
        self.wait(self.mtu_is, 'h2', 4096)
        sent = self.counter('h2', 'tx_packets')
        self.wait(lambda: self.counter('h2', 'tx_packets') > sent + 1000, seconds=GIVE_UP_SECONDS)   # the QP waits for its next retry
        for side in (server, client):
            self.assertIsNone(side.status, side.report() + self.lab.logs())
        self.interface(1500, ['h2'])
        client.wait(time.monotonic() + GIVE_UP_SECONDS)
        self.assertNotEqual(client.status, 0, client.report())
        logs = self.lab.logs()
        self.assertIn('1 QPs have a larger path MTU', logs)
        self.assertIn("its packets are larger than the port's MTU, which has changed: gave up", logs)
        server.kill()
        # What fits goes, and a new connection is made with what there is.
        self.interface(1500)
        self.wait(self.mtu_is, 'h1', 1024)
        self.verify()

    def test_a_smaller_path_mtu_is_not_concerned(self):
        server, client = self.writer('-m', '1024')
        for mtu in (1500, LAB_MTU, 1300) * 5:
            self.interface(mtu)
            time.sleep(0.1)
        self.assertEqual(self.counter('h2', 'tx_too_long'), 0)
        for side in (server, client):
            self.assertIsNone(side.status, side.report() + self.lab.logs())


class Buffers(Veth):
    """framesz as for RoCE MTU 1024."""
    options = ('--wire', 'veth', '--pmd', 'af_packet', '--mtu', '1500')

    def test_the_active_mtu_follows_the_interface(self):
        self.assertEqual(self.active_mtu('h1'), 1024)
        self.reload('h1', None)
        self.interface(9000)
        line = r'roce0 has MTU 9000, but net_af_packet0 carries at most \d+ with its buffers: RoCE MTU 1024; for more, start it with devargs framesz=4352'
        self.wait(lambda: re.search(line, self.lab.logs()))
        self.assertEqual(self.active_mtu('h1'), 1024)
        self.verify()

    test_a_connection_goes_on_when_the_mtu_is_back_and_fails_if_not = None
    test_a_smaller_path_mtu_is_not_concerned = None


class Memif(Lab):
    options = ('--wire', 'memif')

    def test_the_configuration_changes_the_mtu(self):
        whole = self.active_mtu('h1')
        server, client = self.writer()
        for host in ('h1', 'h2'):
            self.reload(host, 1500)
            self.assertEqual(self.active_mtu(host), 1024)
        self.wait(lambda: self.counter('h2', 'tx_too_long') > 0)
        for host in ('h2', 'h1'):
            self.reload(host, None)
        for host in ('h1', 'h2'):
            self.assertEqual(self.active_mtu(host), whole)
        sent = self.counter('h2', 'tx_packets')
        self.wait(lambda: self.counter('h2', 'tx_packets') > sent + 1000, seconds=GIVE_UP_SECONDS)   # the QP waits for its next retry
        for side in (server, client):
            self.assertIsNone(side.status, side.report() + self.lab.logs())
            side.kill()
        self.assertIn('[port uroce0] mtu has changed', self.lab.logs())
        self.reload('h1', 1500)
        self.reload('h2', 1500)
        self.refused(4096, 1024, 1500)
        self.verify()


del Lab

if __name__ == '__main__':
    sys.exit(main())
