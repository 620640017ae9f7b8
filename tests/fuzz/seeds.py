#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the first inputs of the fuzz targets, from tests/golden and by hand.

Usage: seeds.py GOLDEN-FOLDER OUTPUT-FOLDER     one folder per target
"""
import base64
import hashlib
import pathlib
import struct
import sys

ROCE_PORT = 4791
CHUNK_MAX = 2048
# The order of requests.c.
REQUESTS = """HELLO MEMORY DEVICE_GET DEVICE_OPEN DEVICE_QUERY PORT_QUERY GID_TABLE PD_ALLOC PD_FREE MR_DEREG CQ_CREATE
CQ_RESIZE CQ_MODIFY CQ_DESTROY SRQ_CREATE SRQ_MODIFY SRQ_QUERY SRQ_DESTROY QP_CREATE QP_MODIFY QP_QUERY
QP_DESTROY AH_CREATE AH_DESTROY MCAST_ATTACH MCAST_DETACH MW_ALLOC MW_FREE MR_NULL DM_ALLOC DM_FREE
DM_REG XRCD_OPEN XRCD_CLOSE QP_OPEN CHANNEL_CREATE CHANNEL_DESTROY CM_OPEN CM_CREATE_ID CM_DESTROY_ID CM_BIND CM_RESOLVE_ADDR CM_RESOLVE_ROUTE
CM_QUERY CM_LISTEN CM_CONNECT CM_ACCEPT CM_REJECT CM_ESTABLISH CM_DISCONNECT CM_QP_ATTR CM_SET_OPTION CM_JOIN
CM_LEAVE CM_MIGRATE DEVICE_IMPORT PD_IMPORT MR_IMPORT CM_ACCEPT_QP CM_DISCONNECT_QP""".split()


def frames(path):
    """The frames of a little-endian pcap file."""
    data = path.read_bytes()
    at = 24
    while at < len(data):
        size = struct.unpack_from('<I', data, at + 8)[0]
        yield data[at + 16:at + 16 + size]
        at += 16 + size


def l4(frame):
    """IP version, protocol and offset of what follows the IP header; None if it isn't IP."""
    kind = struct.unpack_from('>H', frame, 12)[0]
    if kind == 0x0800:
        return 4, frame[23], 14 + 4 * (frame[14] & 15)
    if kind == 0x86dd:
        return 6, frame[20], 54
    return None


def bth(frame):
    """Offset of the BTH of a RoCE frame, or None."""
    ip = l4(frame)
    if ip is None or ip[1] != 17 or struct.unpack_from('>H', frame, ip[2] + 2)[0] != ROCE_PORT:
        return None
    return ip[2] + 8


def chunk(kind, *body):
    """A chunk of a program (fuzz.h)."""
    body = b''.join(bytes([b]) if isinstance(b, int) else b for b in body)[:CHUNK_MAX]
    return bytes([kind]) + struct.pack('<H', len(body)) + body


class Seeds:
    """The inputs of all targets."""

    def __init__(self, golden, out):
        self.out = out
        self.root = golden.resolve().parents[1]
        self.captures = {path.stem: list(frames(path)) for path in sorted(golden.glob('*.pcap'))}

    def put(self, target, data):
        """Keep an input."""
        folder = self.out / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)

    def each(self):
        """All frames of all captures."""
        for found in self.captures.values():
            yield from found

    def wire(self):
        """A frame of each opcode, IP version and size, and of what is not RoCE."""
        seen = set()
        for frame in self.each():
            at = bth(frame)
            key = (frame[12:14], frame[at] if at else None, len(frame) // 256 if at else l4(frame))
            if key not in seen:
                seen.add(key)
                self.put('wire', frame)
        self.put('wire', next(f for f in self.each() if bth(f))[:12] + bytes.fromhex('81000064') +
                 next(f for f in self.each() if bth(f))[12:])

    def net_rx(self):
        """What isn't RoCE, one by one and after a resolution, and by hand what no capture has: echoes and queries."""
        frame, resolve, wait, join = 0, 2, 4, 5
        others = {f[:60 if l4(f) is None else len(f)] for f in self.each() if bth(f) is None}
        us, peer = bytes.fromhex('525400180001'), bytes.fromhex('525400180002')
        ip = bytes.fromhex('4500002012344000400100 00c6120002c6120001')
        others.add(us + peer + b'\x08\x00' + ip + bytes.fromhex('0800c7aaabcd000141424344'))
        ip6 = bytes.fromhex('60012345000d3a33 fd000018000000000000000000000002 fd000018000000000000000000000001')
        others.add(us + peer + b'\x86\xdd' + ip6 + bytes.fromhex('8000102eabcd00014142434445'))
        igmp = bytes.fromhex('46c00020000040000102 0000 c61200fe e0000001 94040000')
        others.add(bytes.fromhex('01005e000001') + peer + b'\x08\x00' + igmp + bytes.fromhex('11 64 0000 00000000'))
        others.add(bytes.fromhex('01005e000001') + peer + b'\x08\x00' + igmp + bytes.fromhex('11 64 0000 00000000 027d0000'))
        mld = bytes.fromhex('6000000000200001 fe80000000000000505400fffe180002 ff020000000000000000000000000001 3a00050200000100')
        others.add(bytes.fromhex('333300000001') + peer + b'\x86\xdd' + mld + bytes.fromhex('820000002710 0000') + bytes(16))
        for other in sorted(others):
            self.put('net_rx', chunk(frame, other))
            self.put('net_rx', chunk(resolve, 0, 1, 0, 2) + chunk(resolve, 1, 2, 2, 2) + chunk(frame, other) +
                     chunk(join, 1) + chunk(join, 2) + chunk(wait, struct.pack('<H', 1000)) + chunk(frame, other) +
                     chunk(wait, struct.pack('<H', 40000)))

    def cm(self):
        """The MADs of the captures, and a connection and a SIDR exchange between the two ends."""
        (connect, listen, accept, rtu, reject, mra, disconnect, destroy, sidr, sidr_reply, deliver_all, forge, raw,
         wait) = 0, 1, 3, 4, 5, 6, 8, 10, 11, 12, 14, 17, 18, 19
        a, b = 0, 1
        seen = set()
        for frame in self.each():
            at = bth(frame)
            mad = frame[at + 20:at + 276] if at and frame[at] == 0x64 and frame[at + 5:at + 8] == b'\0\0\1' else b''
            if len(mad) == 256 and (mad[16:18], mad[24 + 55:24 + 60]) not in seen:
                seen.add((mad[16:18], mad[24 + 55:24 + 60]))
                self.put('cm', chunk(listen, b, 0, 0, 3) + chunk(raw, b, 0, mad))
                attr = struct.unpack_from('>H', mad, 16)[0] - 0x10
                self.put('cm', self.connection() + chunk(forge, b, 0, attr, 1, 7, mad[24:]))
                self.put('cm', self.connection() + chunk(forge, a, 0, attr, 1, 7, mad[24:]))
        self.put('cm', self.connection() + chunk(disconnect, a) + chunk(deliver_all) + chunk(disconnect, b) + chunk(deliver_all) +
                 chunk(wait, 0, 0xff, 0x20) + chunk(destroy, a) + chunk(destroy, b))
        begin = chunk(listen, b, 0, 0, 3) + chunk(connect, a, 0, 0, 0, 0, 3, 7, 14, 14, 18, 18, 4) + chunk(deliver_all)
        for answer in (chunk(reject, b, 28), chunk(mra, b, 20), chunk(destroy, b), chunk(accept, b, 1)):
            self.put('cm', begin + answer + chunk(deliver_all) + chunk(rtu, a) + chunk(wait, 0, 0xff, 0xff))
        self.put('cm', chunk(listen, b, 0, 0, 3) + chunk(sidr, a, 0, 0, 50, 3) + chunk(deliver_all) + chunk(sidr_reply, b, 0, 1) +
                 chunk(deliver_all))

    def transport(self):
        """Each kind of pair, what can be posted on it, and forged packets of each opcode in each state."""
        (pair, state, modify, send, recv, turn, deliver, lose, settle, wait, forge, raw, poll, cq, sack, look) = (
            0, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 20, 19)
        where, small = b'\x00\x08', b'\x00\x08\x00\x40\x00'
        world = chunk(63, 0, 0)
        for kind in range(6):
            begin = world + chunk(pair, 0, kind, 0, 3, 0x23, 0x41, 12, 7, 7, 1, 4, 4)
            receives = b''.join(chunk(recv, end, 0, 1, small) for end in (0, 1) for _ in range(3))
            for opcode in range(16):
                post = chunk(send, 0, opcode, 2, 1, where, 0, 0, small)
                self.put('transport', begin + receives + post + post + chunk(settle) + chunk(poll, 0) + chunk(poll, 1))
                self.put('transport', begin + post + chunk(turn) + chunk(lose, 0) + chunk(settle) + chunk(wait, 0, 200, 20) +
                         chunk(settle) + receives + chunk(wait, 0, 200, 20) + chunk(look, 0))
            big = chunk(send, 0, 0, 2, 1, where, 0, 0, b'\x00\x01\x00\xff\x1f') + chunk(turn)
            self.put('transport', begin + big + chunk(lose, 2) + chunk(settle) + chunk(wait, 0, 255, 20) + chunk(settle) +
                     big + chunk(lose, 1) + chunk(deliver, 3) + chunk(settle) + chunk(sack, 0, 1, 0, 31, 255))
            self.put('transport', begin + receives + chunk(cq, 0, 0, 0, 1) + chunk(cq, 0, 0, 2, 3, 100) + chunk(cq, 1, 1, 0, 1) +
                     chunk(cq, 1, 1, 2, 3, 100) + (chunk(send, 0, 2, 2, 1, where, 0, 0, small) + chunk(settle)) * 2 +
                     chunk(wait, 0, 200, 10) + chunk(turn))
            self.put('transport', begin + chunk(modify, 0, 0, 0x18, 0, 1) + chunk(modify, 1, 0, 0x18, 0, 1) + chunk(modify, 0, 0, 0x10, 0, 0) +
                     receives + chunk(send, 0, 2, 2, 1, where, 0, 0, small) + chunk(settle) + chunk(forge, 1, 4, 0, 4, 0, 8, where))
            self.put('transport', begin + chunk(forge, 0, 0, 254, 4, 0, 8) + chunk(forge, 0, 128, 254, 4, 0, 8) + chunk(forge, 0, 0, 253, 4, 0, 8))
            for opcode in range(32):
                packet = chunk(forge, 1, 1, 0, opcode, 0, 8, where, 0, b'\x08\x00', 0)
                self.put('transport', begin + receives + packet + chunk(turn) + chunk(settle))
                self.put('transport', begin + b''.join(chunk(state, 1, to) + packet + chunk(turn) for to in (4, 6, 0, 1, 2, 3)))
        for frame in sorted({f for f in self.each() if bth(f) and len(f) < 400})[::200]:
            self.put('transport', world + chunk(pair, 0, 0) + chunk(raw, 0, frame))

    def control(self):
        """What programs do with verbs and with rdma_cm."""
        op_open, op_cm, op_end, op_reg, op_wait, op_frame, op_turns, op_read = 0, 1, 3, 6, 7, 8, 9, 10
        address = bytes(10) + bytes.fromhex('ffffc6120001')
        peer = bytes(10) + bytes.fromhex('ffffc6120002')
        u32 = struct.Struct('<I').pack

        def req(name, *fields, who=0, fd=0):
            return chunk(4, who, REQUESTS.index(name), fd, *fields)

        def ah_attr(gid):
            return gid + u32(0) + bytes([1, 64, 0, 0, 0, 0, 1, 1])

        def qp(kind, srq=0xffffffff, xrcd=0, who=0):
            return req('QP_CREATE', struct.pack('<Q8I', 7, kind, 0, 0, 0, srq, 1, xrcd, 0), struct.pack('<5I', 8, 8, 2, 2, 64),
                       who=who)

        def with_qp(who):
            """A connection is made in the name of a QP that its program has."""
            return (chunk(op_open, who) + req('PD_ALLOC', who=who) + req('CQ_CREATE', u32(16), who=who) + qp(2, who=who))

        def modify(mask, state, gid=peer):
            return req('QP_MODIFY', u32(0), u32(mask), struct.pack('<9I', state, 0, 3, 0, 1, 100, 100, 0x40, 15), bytes(20),
                       ah_attr(gid), bytes(28), struct.pack('<2H12B', 0, 0, 0, 0, 4, 4, 12, 1, 14, 7, 7, 0, 0, 0))

        def up(gid):
            return modify(0x39, 1, gid) + modify(0x12e181 & ~0x2000 | 0x100, 2, gid) + modify(0x12e01 | 0x10001, 3, gid)

        arp = bytes.fromhex('525400180001 525400180002 0806 0001080006040002 525400180002 c6120002 525400180001 c6120001')
        begin = chunk(op_open, 0) + req('PD_ALLOC') + req('CQ_CREATE', u32(16))
        for kind in (2, 3, 4, 9, 10):
            for gid in (address, peer):
                self.put('control', begin + req('XRCD_OPEN', u32(64)) + qp(kind) + up(gid) + chunk(op_frame, 0, arp) +
                         chunk(op_turns, 0) + req('QP_QUERY', u32(0)) + req('QP_DESTROY', u32(0)) + req('CQ_DESTROY', u32(0)))
        for flags in (0, 1, 2, 8):
            for kind in range(6):
                register = chunk(op_reg, 0, flags, 0, 1, 2, 15, 0, 0, 16, kind, 0, 0, kind, 0, 1)
                self.put('control', begin + register + register + req('MW_ALLOC', u32(0), u32(1)) + req('MR_DEREG', u32(0)) +
                         req('MW_FREE', u32(0)) + req('PD_FREE', u32(0)))
        self.put('control', begin + req('SRQ_CREATE', struct.pack('<Q8I', 1, 0, 8, 2, 1, 0, 0, 0, 0)) + req('SRQ_QUERY', u32(0)) +
                 req('SRQ_MODIFY', struct.pack('<4I', 0, 2, 8, 4)) + qp(2, 0) + req('SRQ_DESTROY', u32(0)))
        self.put('control', begin + req('XRCD_OPEN', u32(64), fd=17) + req('SRQ_CREATE', struct.pack('<Q8I', 1, 0, 8, 2, 1, 1, 0, 0, 0)) +
                 qp(10) + chunk(op_open, 1) + req('XRCD_OPEN', u32(64), fd=17, who=1) +
                 req('QP_OPEN', struct.pack('<Q4I', 5, 0, 64, 10, 0), who=1) + chunk(op_end, 0, 1) + chunk(op_end, 1, 1))
        self.put('control', begin + qp(4) + req('MCAST_ATTACH', u32(0), u32(0), bytes(10) + bytes.fromhex('ffffef120001')) +
                 req('AH_CREATE', u32(0), u32(0), ah_attr(address)) + req('AH_CREATE', u32(0), u32(0), ah_attr(peer)) +
                 chunk(op_wait, 0, 0, 2) + chunk(op_frame, 0, arp) + chunk(op_end, 0, 0))
        for name in ('DEVICE_QUERY', 'PORT_QUERY', 'GID_TABLE', 'CQ_RESIZE', 'CQ_MODIFY'):
            self.put('control', begin + req(name, u32(0), u32(64)))

        def cm_addr(gid, port):
            return gid + struct.pack('<2HI', 4, port, 0)

        none = bytes(24)
        for space, kind in ((0x106, 2), (0x111, 4), (0x13f, 2), (2, 4)):
            listener = (with_qp(0) + chunk(op_cm, 0) + req('CM_CREATE_ID', u32(space), u32(kind)) +
                        req('CM_BIND', u32(0), u32(0), cm_addr(address, 7471)) + req('CM_LISTEN', u32(0), u32(4)))
            client = (with_qp(1) + chunk(op_cm, 1) + req('CM_CREATE_ID', u32(space), u32(kind), who=1) +
                      req('CM_RESOLVE_ADDR', u32(0), u32(2000), none, cm_addr(address, 7471), who=1) + chunk(op_turns, 1) +
                      req('CM_RESOLVE_ROUTE', u32(0), u32(2000), who=1) + chunk(op_turns, 1) + chunk(op_read, 1))
            param = struct.pack('<2I8B', 0x50, 1, 1, 1, 0, 7, 7, 0, kind, 4) + b'ping'
            connect = listener + client + req('CM_CONNECT', u32(0), u32(0), param, who=1) + chunk(op_turns, 0) + chunk(op_read, 0)
            accept = connect + req('CM_ACCEPT', u32(1), u32(0), param) + chunk(op_turns, 0) + chunk(op_read, 1)
            self.put('control', accept + req('CM_ACCEPT', u32(0), u32(0), param, who=1) + chunk(op_turns, 0) +
                     req('CM_DISCONNECT', u32(1)) + chunk(op_turns, 0) + req('CM_DISCONNECT', u32(0), who=1) +
                     chunk(op_wait, 0, 255, 255) + req('CM_DESTROY_ID', u32(0), u32(1)))
            self.put('control', accept + chunk(op_end, 0, 1) + chunk(op_turns, 0))
            self.put('control', connect + req('CM_REJECT', u32(1), struct.pack('<H2B', 28, 2, 0)) + chunk(op_turns, 0))
            self.put('control', connect + req('CM_DESTROY_ID', u32(0)) + chunk(op_end, 1, 1))
            self.put('control', connect + req('CM_QP_ATTR', u32(1), u32(1)) + req('CM_QP_ATTR', u32(1), u32(2)) +
                     req('CM_QP_ATTR', u32(0), u32(1), who=1) + req('CM_ESTABLISH', u32(1)) + req('CM_QUERY', u32(0)) +
                     req('CM_SET_OPTION', struct.pack('<4I', 0, 0, 4, 0)))
            self.put('control', client + req('CM_JOIN', u32(0), u32(1), cm_addr(bytes(10) + bytes.fromhex('ffffef120001'), 0), who=1) +
                     chunk(op_turns, 1) + req('CM_LEAVE', u32(0), who=1))
        for frame in self.each():
            at = bth(frame)
            if at and frame[at + 5:at + 8] == b'\0\0\1' and len(frame) < 400 and sum(frame) % 5 == 0:
                self.put('control', listener + chunk(op_frame, 0, frame) + chunk(op_turns, 0) + chunk(op_read, 0))

    def wqe(self):
        """Each opcode on each type of QP, and bytes in each place."""
        scribble, send, recv, turns, cons, modify, renew, wait = 0, 1, 2, 4, 5, 6, 7, 8
        for pair in range(3):
            begin = chunk(0, pair)
            sge = b'\x00\x40\x00\x80\x00'
            receives = b''.join(chunk(recv, 2 * pair + end, 1, sge, sge) for end in (0, 1))
            for opcode in range(16):
                post = chunk(send, 2 * pair, opcode, 2, 1, sge, sge, sge, 8)
                self.put('wqe', begin + receives + post + post + chunk(turns, 0, 7) + chunk(cons, 0, 1) + post + chunk(turns, 0, 7))
            for place in range(6):
                self.put('wqe', begin + receives + chunk(send, 2 * pair, 2, 2, 1, sge, sge, sge) +
                         chunk(scribble, 2 * pair, place, 0, 0, bytes(range(64))) + chunk(turns, 0, 7) + chunk(modify, 0, 6, 0) +
                         chunk(turns, 0, 3) + chunk(modify, 0, 3, 1) + chunk(renew, 4) + chunk(wait, 0, 255, 255))

        # A SEND between two QPs of the host whose memory and whose receive's memory overlap.
        self.put('wqe', base64.b64decode('AAEAAAIMAAABAEAAgAAAQACAAAIMAAEBAEQAgAAAQACAAAEUAAADAgEAQACAAABAAIAAAEAAgAAIARQAAAMCAQBAAIAAAEAAgAAAQACAAAgEAgAABwgDAAD/4QYDAAAG'
                                         'AAQCAAADBgMAAAMBBwEABAgDAAD//w=='))

    def config(self):
        """The sample, and its lines as settings."""
        sample = (self.root / 'config/uroced.conf').read_bytes()
        section = b'daemon'
        self.put('config', sample[:2000])
        for line in sample.split(b'\n'):
            line = line.lstrip(b'#; ')
            if line.startswith(b'['):
                section = line.strip(b'[]')
            elif b'=' in line and len(line) < 100:
                key, value = (part.strip() for part in line.split(b'=', 1))
                self.put('config', b'[port uroce0]\nethdev = net_ring0\n[' + section + b']\n' + line + b'\n')
                self.put('config', b'\0port uroce0.ethdev=net_ring0\0' + section + b'.' + key + b'=' + value)

    def impair(self):
        """Each key and each action."""
        keys = [b'loss=0.01', b'burst=3', b'dup=0.5', b'reorder=0.5', b'gap=50', b'delay=10', b'jitter=5', b'corrupt=0.5', b'ecn=0.5',
                b'rate=1000', b'queue=100', b'ecn_queue=2', b'seed=7']
        keys += [b'rule=' + action + b'/opcode=0x04/qpn=0x11/psn=10-20/skip=1/count=3'
                 for action in (b'drop', b'dup', b'corrupt', b'mark', b'delay')]
        packets = bytes([8]) + bytes([4, 0x11, 12, 80]) * 8 + bytes([200, 12]) + bytes([4]) + bytes([4, 0x11, 12, 80]) * 4
        for key in keys:
            self.put('impair', key + b'\0' + packets)
            self.put('impair', b'net_impair0,port=eth0,' + key)
        self.put('impair', b','.join(keys) + b'\0' + packets)

    def rsocket(self):
        """A stream with data both ways, a greeting, and datagrams."""
        (op_hello, dgram, udp, grant, limit, send, done, arrive, read, give) = range(10)
        self.put('rsocket', chunk(op_hello, bytes.fromhex('010200200000008000000000000010000000000500000002') + bytes(16)))
        self.put('rsocket', chunk(dgram, bytes.fromhex('04081234c6120001')) + chunk(dgram, bytes.fromhex('06181234') + bytes(20)))
        self.put('rsocket', chunk(udp, 1, bytes.fromhex('55555555 04001000 00000011 c6120001')) +
                 chunk(udp, 0, bytes.fromhex('55555555 06071c00 00000011') + bytes(16)))
        self.put('rsocket', (chunk(give, 0, 0, 1, 0, 16, 0, 0) + chunk(limit, 8) + chunk(send, 0, 1) * 4 + chunk(done) +
                             chunk(arrive, 0, 8) + chunk(arrive, 0, 8) + chunk(read, 0, 16) + chunk(read, 0, 16) + chunk(grant)) * 4)

    def telemetry(self):
        """Each command with numbers, names and filters."""
        texts = ('', '0', '1', '64', '0x40', 'uroce0', 'from=0', 'from=1,port=uroce0,program=fuzz', 'session=1,state=RESET,type=RC',
                 'state=ERR', 'start,/dev/null,port=uroce0,qp=64,snap=100', 'stop')
        for command in range(11):
            for text in texts:
                self.put('telemetry', bytes([command]) + text.encode())

    @staticmethod
    def connection():
        """A program that makes one."""
        return (chunk(1, 1, 0, 0, 3) + chunk(0, 0, 0, 0, 0, 0, 3, 7, 14, 14, 18, 18, 4) + chunk(14) + chunk(3, 1, 1, 1, 1) +
                chunk(14) + chunk(4, 0) + chunk(14))


def main():
    """Command line."""
    golden, out = map(pathlib.Path, sys.argv[1:])
    seeds = Seeds(golden, out)
    for name in [name for name in vars(Seeds) if name not in ('put', 'each', 'connection') and not name.startswith('_')]:
        getattr(seeds, name)()


main()
