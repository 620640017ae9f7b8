#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What is on the wire, seen by others: tshark finds no malformed packet, zlib agrees with every ICRC."""

import os
import shutil
import struct
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import lab_up, main  # noqa: E402
from onwire import Capture, ICRC_BYTES, icrc, packets, roce_layers, tshark  # noqa: E402
from uroce_lab import pairs  # noqa: E402

NAME = f'w{os.getpid()}'


class Wire:
    """The same for each driver."""
    pmd = ''

    @classmethod
    def setUpClass(cls):
        cls.up = lab_up('--wire', 'veth', '--hosts', '3', '--pmd', cls.pmd, name=NAME)
        cls.lab = cls.up.__enter__()
        cls.scratch = tempfile.mkdtemp(prefix='uroce-wire-')
        # dumpcap gives up root's rights before it writes.
        os.chmod(cls.scratch, 0o777)

    @classmethod
    def tearDownClass(cls):
        cls.up.__exit__(None, None, None)
        shutil.rmtree(cls.scratch)

    def judge(self, program, family, *options):
        path = os.path.join(self.scratch, 'wire.pcap')
        gid = str(self.lab.gid_index('h1', family))
        capture = Capture(self.lab.data['switch'], path)
        try:
            gid_option = '-g' if program.startswith('ibv_') else '-x'
            pair = pairs.run_pair(self.lab, [program, '-d', pairs.DEVICE, gid_option, gid, *options], 60)
        finally:
            lost = capture.stop()
        self.assertTrue(pair.ok, pair.report())
        self.assertEqual(lost, 0, 'the capture lost frames')
        found = [layers for layers in map(roce_layers, packets(path)) if layers]
        self.assertGreater(len(found), 10, 'hardly any RoCE packet on the wire')
        for header, udp in found:
            theirs, = struct.unpack('<I', udp[-ICRC_BYTES:])
            self.assertEqual(icrc(header, udp), theirs, f'ICRC of {udp.hex()}')
        self.tshark_agrees(path, len(found))
        os.unlink(path)

    def tshark_agrees(self, path, expected):
        seen = tshark(path, 'infiniband')
        self.assertEqual(len(seen), expected, 'packets that tshark takes for RoCE')
        self.assertEqual(tshark(path, 'infiniband && _ws.malformed'), [])

    def test_rc_pingpong(self):
        self.judge('ibv_rc_pingpong', 4, '-n', '50', '-s', '5001')
        self.judge('ibv_rc_pingpong', 6, '-n', '50', '-s', '5001')

    def test_send(self):
        self.judge('ib_send_bw', 4, '-n', '50', '-s', '10000', '-m', '1024')
        self.judge('ib_send_lat', 6, '-n', '50', '-s', '3')

    def test_write(self):
        self.judge('ib_write_bw', 6, '-n', '50', '-s', '10000', '-m', '512')
        self.judge('ib_write_lat', 4, '-n', '50', '-s', '2')

    def test_read(self):
        self.judge('ib_read_bw', 4, '-n', '50', '-s', '10001', '-m', '256')
        self.judge('ib_read_lat', 6, '-n', '50', '-s', '1')

    def test_atomic(self):
        self.judge('ib_atomic_bw', 4, '-n', '50')
        self.judge('ib_atomic_lat', 6, '-n', '50')


class AfPacket(Wire, unittest.TestCase):
    pmd = 'af_packet'


class AfXdp(Wire, unittest.TestCase):
    pmd = 'af_xdp'


if __name__ == '__main__':
    sys.exit(main())
