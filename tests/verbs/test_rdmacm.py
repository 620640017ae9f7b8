#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's rdma_cm programs between two hosts, a connection that a dying program leaves, and ports that nobody listens on."""

import os
import shutil
import signal
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from cmlab import IPV4, IPV6, CmTest  # noqa: E402
from uroce_lab import pairs  # noqa: E402


class RdmaCm(CmTest):
    NAME = f'c{os.getpid()}'

    @classmethod
    def setUpClass(cls):
        if not shutil.which('rping'):
            raise unittest.SkipTest('rdmacm-utils is not installed')
        super().setUpClass()

    def test_rping_moves_and_checks_data(self):
        for address in (IPV4, IPV6):
            _, client = self.pair(f'rping -s -v -V -C 20 -a {address}', f'rping -c -v -V -C 20 -a {address}')
            self.assertIn('rdma-ping-19', client.text())
        self.pair('rping -s -C 20 -S 60000 -q', f'rping -c -V -C 20 -S 60000 -q -a {IPV4}')

    def test_ucmatose_connects_many_and_moves_ids(self):
        self.pair('ucmatose', f'ucmatose -s {IPV4}')
        self.pair('ucmatose -c 50 -C 20', f'ucmatose -s {IPV4} -c 50 -C 20')
        self.pair('ucmatose -m -t 96', f'ucmatose -s {IPV4} -m -t 96')
        self.pair(f'ucmatose -b {IPV6}', f'ucmatose -s {IPV6}')

    def test_datagrams_find_their_peer(self):
        self.pair('udaddy', f'udaddy -s {IPV4}')
        self.pair(f'udaddy -b {IPV6}', f'udaddy -s {IPV6}')

    def test_endpoints(self):
        self.pair('rdma_server', f'rdma_client -s {IPV4}')
        self.pair('rdma_xserver', f'rdma_xclient -s {IPV4}')
        self.pair('rdma_xserver -p 7777 -c x', f'rdma_xclient -s {IPV4} -p 7777 -c x')

    def test_targets_take_initiators_only(self):
        side = self.server('rdma_xserver', '-c', 'x')
        try:
            done = self.lab.run('h2', 'rdma_xclient', '-s', IPV4, '-c', 'r')
        finally:
            side.kill()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('refused', done.stdout)

    def test_perftest(self):
        for program in ('ib_write_bw', 'ib_send_lat', 'ib_read_bw'):
            self.pair(f'{program} -R -n 200', f'{program} -R -n 200 {IPV4}')

    def test_nobody_listens(self):
        done = self.lab.run('h2', 'rping', '-c', '-C', '1', '-a', IPV4)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('RDMA_CM_EVENT_REJECTED, error 8', done.stdout)

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
            self.assertTrue(server.wait(time.monotonic() + 5), server.report())
            # By the DREQ, or because what it was about to read is gone already.
            self.assertRegex(server.text(), 'DISCONNECT|completion failed')
        finally:
            server.kill()
            client.kill()
        self.until('connections are left', lambda: self.cm('h1')['ids'] == 0 and self.cm('h2')['ids'] == 0)


if __name__ == '__main__':
    try:
        unittest.main(verbosity=2)
    except unittest.SkipTest:
        sys.exit(77)
