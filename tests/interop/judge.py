# SPDX-License-Identifier: BSD-3-Clause
"""
Every packet of uroce's in a capture against rules, and field by field against what Soft-RoCE sends.

The decoder is this file's own: it shares nothing with lib/wire. docs/wire.md says why each field is what it is.
"""

import collections
import struct

from onwire import ETHERNET_BYTES, ICRC_BYTES, icrc, packets, roce_layers, tshark

RC, UC, UD = 0, 1, 3
SERVICES = {RC: 'RC', UC: 'UC', UD: 'UD'}
OPERATIONS = ('SEND first', 'SEND middle', 'SEND last', 'SEND last imm', 'SEND only', 'SEND only imm',
              'WRITE first', 'WRITE middle', 'WRITE last', 'WRITE last imm', 'WRITE only', 'WRITE only imm',
              'READ request', 'READ response first', 'READ response middle', 'READ response last',
              'READ response only', 'ACK', 'atomic ACK', 'compare and swap', 'fetch and add', None,
              'SEND last inv', 'SEND only inv')
BTH_BYTES = 12
# Bytes of the extended headers, by operation; UD has a DETH before them.
DETH, RETH, ATOMICETH, AETH, ATOMICACK, IMM, IETH = 8, 16, 28, 4, 8, 4, 4
EXTENDED = {3: IMM, 5: IMM, 6: RETH, 9: IMM, 10: RETH, 11: RETH + IMM, 12: RETH, 13: AETH, 15: AETH, 16: AETH, 17: AETH,
            18: AETH + ATOMICACK, 19: ATOMICETH, 20: ATOMICETH, 22: IETH, 23: IETH}
WITH_AETH = (13, 15, 16, 17, 18)
FIRST_OR_MIDDLE = (0, 1, 6, 7, 13, 14)
LAST = (2, 3, 8, 9, 15, 22)
RESPONSES = (13, 14, 15, 16, 17, 18)
REQUESTS_THAT_ASK = (2, 3, 4, 5, 8, 9, 10, 11, 12, 19, 20, 22, 23)     # RC: for an ACK, always
SOLICITABLE = (2, 3, 4, 5, 9, 11, 22, 23)
MTUS = (256, 512, 1024, 2048, 4096)
TTLS = (64, 255)            # peer.c asks for 64, perftest for 255, Debian's pingpongs for 1, which becomes 64
UNANSWERED = 16             # packets that a connection may send without seeing one from its peer
DEFAULT_PKEY = 0xffff
GSI_QPN = 1                 # a MAD that answers one without a flow label has none either
TRAFFIC_CLASSES = (0, 0x60, 0x68)       # what cells.py and cm_programs.py ask for
FLOW_LABEL = 0x54321        # the same
NAKS = {0x60: 'PSN sequence', 0x61: 'invalid request', 0x62: 'remote access', 0x63: 'remote operation'}


def sport_of(flow_label):
    """Linux's rdma_flow_label_to_udp_sport()"""
    return 0xc000 | (flow_label & 0x3fff) ^ (flow_label >> 14)


def ones_sum(data):
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total


WRITE_ONLY = 10
OFFER_MAGIC = b'ur2'


class Packet:
    """A RoCE v2 packet, taken apart."""

    def __init__(self, frame, ip, udp):
        self.smac = frame[6:12]
        self.frame_bytes = len(frame)
        self.ip = ip
        self.v6 = ip[0] >> 4 == 6
        if self.v6:
            word, self.ip_bytes, _, self.ttl = struct.unpack_from('!IHBB', ip)
            self.tclass, self.flow_label = word >> 20 & 0xff, word & 0xfffff
            self.ip_bytes += 40
            self.src, self.dst = ip[8:24], ip[24:40]
        else:
            _, self.tclass, self.ip_bytes, self.ip_id, self.fragment, self.ttl = struct.unpack_from('!BBHHHB', ip)
            self.src, self.dst = ip[12:16], ip[16:20]
        self.sport, _, self.udp_bytes, self.udp_sum = struct.unpack_from('!HHHH', udp)
        bth = udp[8:]
        self.opcode, self.flags, self.pkey, self.cn, self.dqpn, self.a, self.psn = self._bth(bth)
        self.service, self.op = self.opcode >> 5, self.opcode & 31
        self.name = f'{SERVICES.get(self.service, "?")} {OPERATIONS[self.op] if self.op < 24 else self.op}'
        self.solicited, self.migreq, self.pad, self.tver = \
            self.flags >> 7, self.flags >> 6 & 1, self.flags >> 4 & 3, self.flags & 15
        self.ackreq = self.a >> 7
        offset = BTH_BYTES
        if self.service == UD:
            self.deth = bth[offset:offset + DETH]
            offset += DETH
        self.aeth = bth[offset] if self.op in WITH_AETH and self.service == RC else None
        self.reth_bytes = struct.unpack_from('!I', bth, offset + 12)[0] if self.op in (6, 10, 11, 12) else None
        # Of selective repeat: a duplicate to anybody else, which needs no answer (docs/wire.md).
        self.offer = self.op == WRITE_ONLY and self.reth_bytes == 0 and bth[offset:offset + 3] == OFFER_MAGIC
        offset += EXTENDED.get(self.op, 0)
        self.padding = bth[len(bth) - ICRC_BYTES - self.pad:len(bth) - ICRC_BYTES]
        self.payload_bytes = len(bth) - ICRC_BYTES - self.pad - offset

    @staticmethod
    def _bth(bth):
        opcode, flags, pkey = struct.unpack_from('!BBH', bth)
        dqpn, = struct.unpack_from('!I', bth, 4)
        psn, = struct.unpack_from('!I', bth, 8)
        return opcode, flags, pkey, dqpn >> 24, dqpn & 0xffffff, psn >> 24, psn & 0xffffff


# ---- What each packet of uroce's must be ----
def must(packet):
    """@return (rule, whether it holds) for each rule that concerns the packet"""
    p = packet
    yield 'nothing behind the IP packet', p.frame_bytes == ETHERNET_BYTES + p.ip_bytes
    yield 'UDP length is the IP length without its header', p.udp_bytes == p.ip_bytes - len(p.ip)
    if p.v6:
        yield 'IPv6 flow label is the program\'s, or one of the connection that the source port is made of', \
            sport_of(p.flow_label) == p.sport or p.dqpn == GSI_QPN and p.flow_label == 0
    else:
        yield 'IPv4 header of 20 bytes', p.ip[0] == 0x45
        yield 'IPv4 checksum', ones_sum(p.ip) == 0xffff
        yield 'IPv4 id 0', p.ip_id == 0
        yield 'DF, no fragment', p.fragment == 0x4000
    yield 'TTL is the AV\'s hop limit, 64 for 0 and 1', p.ttl in TTLS
    yield 'DSCP and ECN are the AV\'s traffic class', p.tclass in TRAFFIC_CLASSES
    yield 'UDP source port above 49151', p.sport >= 0xc000
    yield 'UDP checksum 0', p.udp_sum == 0
    yield 'service RC, UC or UD and a known operation', p.service in SERVICES and OPERATIONS[p.op] is not None
    yield 'transport version 0', p.tver == 0
    yield 'MigReq 1', p.migreq == 1
    yield 'P_Key of the table', p.pkey == DEFAULT_PKEY
    yield 'FECN, BECN and reserved bits 0', p.cn == 0 and p.a & 0x7f == 0
    yield 'the pad fills up to 4 bytes, with zeros', p.pad == -p.payload_bytes % 4 and not any(p.padding)
    yield 'solicited only at the end of a message with a receive', not p.solicited or p.op in SOLICITABLE
    if p.service == RC and p.op in REQUESTS_THAT_ASK and not p.offer:
        yield 'AckReq at the end of an RC message, in READs and atomics', p.ackreq == 1
    if p.service != RC or p.op in RESPONSES:
        yield 'no AckReq in responses, UC and UD', p.ackreq == 0
    if p.op in FIRST_OR_MIDDLE:
        yield 'first and middle packets are full', p.payload_bytes in MTUS
    elif p.op in LAST:
        yield 'last packets are not empty', 1 <= p.payload_bytes <= max(MTUS)
    elif p.op in (12, 17, 18, 19, 20):
        yield 'no payload where none belongs', p.payload_bytes == 0
    if p.op in (10, 11):
        yield 'RETH of an only packet has its length', p.reth_bytes == p.payload_bytes
    if p.op == 6:
        yield 'RETH of a first packet has more than its length', p.reth_bytes > p.payload_bytes
    if p.aeth is not None:
        yield 'AETH: credits or none, an RNR timer or a NAK code', \
            p.aeth <= 0x1f or p.aeth >> 5 == 1 or p.aeth in NAKS and p.op == 17
    if p.service == UD:
        yield 'reserved byte of the DETH 0', p.deth[4] == 0


# ---- What the two ends put into each field ----
def syndrome(p):
    if p.aeth is None:
        return None
    if p.aeth >> 5 == 1:
        return f'RNR {p.aeth & 31}'
    return f'NAK {NAKS.get(p.aeth, p.aeth)}' if p.aeth >> 5 == 3 else 'ACK without credits' if p.aeth == 0x1f else 'ACK with credits'


def flow(p):
    return 'program\'s' if p.flow_label == FLOW_LABEL else '0' if p.flow_label == 0 else 'of the QPNs'


def source_port(p):
    return 'above 49151' if p.sport >= 0xc000 else 'others'


FIELDS = {
    'IPv4 id': lambda p: None if p.v6 else '0' if p.ip_id == 0 else 'counts',
    'IPv4 flags': lambda p: None if p.v6 else {0x4000: 'DF', 0: 'none'}.get(p.fragment, 'fragment'),
    'IPv6 flow label': lambda p: flow(p) if p.v6 else None,
    'TTL, hop limit': lambda p: str(p.ttl),
    'DSCP and ECN': lambda p: f'{p.tclass:#04x}',
    'UDP source port': source_port,
    'UDP checksum': lambda p: '0' if p.udp_sum == 0 else 'set',
    'MigReq': lambda p: str(p.migreq),
    'TVer': lambda p: str(p.tver),
    'P_Key': lambda p: f'{p.pkey:#06x}',
    'FECN, BECN, reserved': lambda p: f'{p.cn:#x}, {p.a & 0x7f:#x}',
    'pad bytes': lambda p: 'zero' if not any(p.padding) else 'not zero',
    'AckReq: end of RC messages, READ, atomic':
        lambda p: str(p.ackreq) if p.service == RC and p.op in REQUESTS_THAT_ASK and not p.offer else None,
    'AckReq: inside RC messages':
        lambda p: str(p.ackreq) if p.service == RC and p.op in (0, 1, 6, 7) else None,
    'AckReq: responses, UC, UD':
        lambda p: str(p.ackreq) if (p.service != RC or p.op in RESPONSES) and p.dqpn != GSI_QPN else None,
    'AckReq: MADs': lambda p: str(p.ackreq) if p.dqpn == GSI_QPN else None,
    'solicited': lambda p: str(p.solicited) if p.op in SOLICITABLE else None,
    'AETH': syndrome,
}
# Where the two may differ. docs/wire.md has the reasons.
EXPLAINED = ('IPv4 id', 'IPv6 flow label', 'TTL, hop limit', 'MigReq', 'AckReq: MADs', 'AETH')


class Judgement:
    """What became of the captures of a run."""

    def __init__(self):
        self.packets = collections.Counter()        # per side
        self.broken = collections.Counter()         # rule -> packets
        self.example = {}
        self.values = {name: (set(), set()) for name in FIELDS}     # uroce's, Soft-RoCE's
        self.operations = (collections.Counter(), collections.Counter())
        self.ports = {}                             # (addresses, service) -> packets by source port, of each side
        self.malformed = []

    def read(self, path, mac):
        """@param mac  uroce's"""
        roce = 0
        for frame in packets(path):
            layers = roce_layers(frame)
            if layers is None:
                continue
            roce += 1
            self._packet(frame, *layers, 0 if frame[6:12] == mac else 1)
        seen = tshark(path, 'infiniband')
        if len(seen) != roce:
            self.malformed.append(f'{path}: tshark takes {len(seen)} packets for RoCE, there are {roce}')
        self.malformed += tshark(path, 'infiniband && _ws.malformed')
        return roce

    def _packet(self, frame, ip, udp, side):
        theirs, = struct.unpack('<I', udp[-ICRC_BYTES:])
        packet = Packet(frame, ip, udp)
        self.packets[side] += 1
        self.operations[side][packet.name] += 1
        if side == 0:
            self._rule('ICRC', icrc(ip, udp) == theirs, frame)
            for rule, holds in must(packet):
                self._rule(rule, holds, frame)
        for name, value in FIELDS.items():
            seen = value(packet)
            if seen is not None:
                self.values[name][side].add(seen)
        if packet.service in (RC, UC):
            # Both directions of a connection: the same port, if nobody chose a label.
            pair = frozenset((packet.src, packet.dst))
            counts = self.ports.setdefault((pair, packet.service), (collections.Counter(), collections.Counter()))
            counts[side][packet.sport] += 1

    def _rule(self, rule, holds, frame):
        if not holds:
            self.broken[rule] += 1
            self.example.setdefault(rule, frame.hex())

    def differences(self):
        return [name for name, (ours, theirs) in self.values.items() if ours != theirs]

    def problems(self):
        """@return a line for each thing that is wrong"""
        lines = [f'{number} packets of uroce\'s break: {rule}\n    {self.example[rule]}'
                 for rule, number in self.broken.items()]
        lines += [f'tshark: {line}' for line in self.malformed]
        lines += [f'{name}: uroce sends {show(self.values[name][0])}, Soft-RoCE {show(self.values[name][1])}, '
                  'and nothing explains it' for name in self.differences() if name not in EXPLAINED]
        for (_, service), (ours, theirs) in self.ports.items():
            alone = [port for port, number in ours.items() if port not in theirs and number > UNANSWERED]
            if service == RC and alone:
                lines.append(f'RC source ports of uroce\'s that its peer doesn\'t use: {alone}')
        if not self.packets[0] or not self.packets[1]:
            lines.append('one of the two sent nothing')
        return lines

    def table(self):
        """@return rows (field, uroce's values, Soft-RoCE's, whether they are the same)"""
        return [[name, show(ours), show(theirs), 'same' if ours == theirs else 'differs']
                for name, (ours, theirs) in self.values.items()]


def show(values):
    return ', '.join(sorted(values)) or 'none'
