# SPDX-License-Identifier: BSD-3-Clause
"""
What is on the wire, seen by others: a capture, tshark's opinion of it, and the ICRC by zlib. Nothing here is uroce's.

Captured on the bridge between the hosts: at the hosts' own interfaces the kernel shows captures neither what leaves by
af_xdp or past the queueing discipline, nor what XDP takes away on arrival.
"""

import os
import re
import signal
import struct
import subprocess
import time
import zlib

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
    """Of what passes between a lab's switch and host h1."""

    def __init__(self, switch, path):
        self.path = path
        self.child = subprocess.Popen(['ip', 'netns', 'exec', switch, 'dumpcap', '-q', '-P', '-i', 'h1',
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


def tshark(path, display_filter):
    """@return a line for each packet that passes the filter"""
    options = [word for guess in GUESSES for word in ('--disable-heuristic', guess)]
    options += [word for protocol in GUESSED for word in ('--disable-protocol', protocol)]
    done = subprocess.run(['tshark', *options, '-r', path, '-Y', display_filter, '-T', 'fields',
                           '-e', 'frame.number', '-e', 'infiniband.bth.opcode', '-e', 'frame.len',
                           '-e', '_ws.col.Info'],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return done.stdout.splitlines()
