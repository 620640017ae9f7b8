#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What is on the wire, seen by others: tshark finds no malformed packet, zlib agrees with every ICRC.

Captured on the bridge between three hosts while Debian's programs run: at the hosts' own interfaces the kernel shows
captures neither what leaves by af_xdp or past the queueing discipline, nor what XDP takes away on arrival.
"""

import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import Skip, lab_up  # noqa: E402
from uroce_lab import pairs  # noqa: E402

NAME = f'w{os.getpid()}'
ROCE_PORT = 4791
ETHERNET_BYTES = 14
ICRC_BYTES = 4
SNAPLEN = 65535
CAPTURE_SECONDS = 20        # for the capture to begin and to end
# What tshark takes the bytes of a SEND for, if it may guess: it then calls random bytes a malformed RPC, say.
GUESSES = ('rpcrdma_infiniband', 'iser_infiniband', 'fc_infiniband', 'sdp_infiniband', 'lnet_ib', 'mellanox_eoib',
           'eth_over_ib')
GUESSED = ('rpcordma', 'smc', 'smb_direct', 'nvme-rdma')


def packets(path):
    """The frames of a pcap file (microseconds or nanoseconds, our byte order)."""
    with open(path, 'rb') as f:
        data = f.read()
    offset = 24
    while offset < len(data):
        _, _, length, original = struct.unpack_from('=IIII', data, offset)
        if length != original:
            raise AssertionError('the capture cut a frame')
        yield data[offset + 16:offset + 16 + length]
        offset += 16 + length


def roce_layers(frame):
    """@return (IP header, UDP datagram with the ICRC) of a RoCE v2 frame, None for others"""
    ethertype, = struct.unpack_from('!H', frame, 12)
    ip = frame[ETHERNET_BYTES:]
    if ethertype == 0x0800 and ip[9] == 17:
        length, = struct.unpack_from('!H', ip, 2)
        header = (ip[0] & 15) * 4
    elif ethertype == 0x86dd and ip[6] == 17:
        length = 40 + struct.unpack_from('!H', ip, 4)[0]
        header = 40
    else:
        return None
    udp = ip[header:length]
    return (ip[:header], udp) if struct.unpack_from('!H', udp, 2)[0] == ROCE_PORT else None


def icrc(header, udp):
    """The invariant CRC (annex A17): fields that a router may change count as ones, the LRH as 8 bytes of ones."""
    header, udp = bytearray(header), bytearray(udp)
    if header[0] >> 4 == 4:
        header[1] = header[8] = 0xff                    # type of service, time to live
        header[10:12] = b'\xff\xff'                     # checksum
    else:
        header[0:4] = bytes([header[0] | 0x0f]) + b'\xff\xff\xff'   # traffic class, flow label
        header[7] = 0xff                                # hop limit
    udp[6:8] = b'\xff\xff'                              # checksum
    udp[8 + 4] = 0xff                                   # BTH: FECN, BECN, reserved
    return zlib.crc32(b'\xff' * 8 + bytes(header) + bytes(udp[:-ICRC_BYTES]))


class Capture:
    def __init__(self, lab, path):
        self.path = path
        self.child = subprocess.Popen(['ip', 'netns', 'exec', lab.data['switch'], 'dumpcap', '-q', '-P', '-i', 'h1',
                                       '-B', '64', '-s', str(SNAPLEN), '-w', path], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        end = time.monotonic() + CAPTURE_SECONDS
        while not (os.path.exists(path) and os.path.getsize(path)) and time.monotonic() < end:
            time.sleep(0.05)

    def stop(self):
        """@return how many frames the capture lost"""
        time.sleep(0.5)
        self.child.send_signal(signal.SIGINT)
        said, _ = self.child.communicate(timeout=CAPTURE_SECONDS)
        counts = re.search(r'received/dropped.*: \d+/(\d+)', said)
        if not counts:
            raise AssertionError(f'dumpcap: {said}')
        return int(counts[1])


class Wire:
    """The same for each driver."""
    pmd = ''

    @classmethod
    def setUpClass(cls):
        try:
            cls.up = lab_up('--wire', 'veth', '--hosts', '3', '--pmd', cls.pmd, name=NAME)
            cls.lab = cls.up.__enter__()
        except Skip as e:
            raise unittest.SkipTest(str(e)) from None
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
        capture = Capture(self.lab, path)
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
        seen = self.tshark(path, 'infiniband')
        self.assertEqual(len(seen), expected, 'packets that tshark takes for RoCE')
        self.assertEqual(self.tshark(path, 'infiniband && _ws.malformed'), [])

    @staticmethod
    def tshark(path, display_filter):
        options = [word for guess in GUESSES for word in ('--disable-heuristic', guess)]
        options += [word for protocol in GUESSED for word in ('--disable-protocol', protocol)]
        done = subprocess.run(['tshark', *options, '-r', path, '-Y', display_filter, '-T', 'fields',
                               '-e', 'frame.number', '-e', 'infiniband.bth.opcode', '-e', 'frame.len',
                               '-e', '_ws.col.Info'],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        return done.stdout.splitlines()

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
    unittest.main(verbosity=2)
