# SPDX-License-Identifier: BSD-3-Clause
"""
Every MAD of the connection manager in a capture, field by field: what uroce puts into a field Linux must have put there
too, in the same run or in a capture of tests/golden, or the difference has a reason.

The formats are IBTA volume 1, 12.6 to 12.11; nothing here is uroce's.
"""

import collections
import glob
import os

from onwire import packets, roce_layers

GOLDEN = os.path.join(os.path.dirname(os.path.realpath(__file__)), '../golden')
BTH_BYTES, DETH_BYTES, MAD_BYTES, HEADER_BYTES = 12, 8, 256, 24
UD_SEND_ONLY, GSI_QPN = 0x64, 1
IP_HEADER = 36              # the RDMA CM's, in the private data of REQ and SIDR_REQ

# Fields: name, first byte (behind the MAD header), first bit, bits. '-' before a name: each message has its own value.
PATH = (('-local_lid', 0, 0, 16), ('-remote_lid', 2, 0, 16), ('-local_gid', 4, 0, 128), ('-remote_gid', 20, 0, 128),
        ('-flow_label', 36, 0, 20), ('packet_rate', 39, 2, 6), ('traffic_class', 40, 0, 8), ('hop_limit', 41, 0, 8),
        ('sl', 42, 0, 4), ('subnet_local', 42, 4, 1), ('ack_timeout', 43, 0, 5))
IDS = (('-local_comm_id', 0, 0, 32), ('-remote_comm_id', 4, 0, 32))


def path(name, at):
    return tuple((('-' if field[0] == '-' else '') + f'{name}.{field.lstrip("-")}', at + byte, bit, bits)
                 for field, byte, bit, bits in PATH)


MESSAGES = {
    0x10: ('REQ', (('-local_comm_id', 0, 0, 32), ('service_id.space', 8, 0, 48), ('-service_id.port', 14, 0, 16),
                   ('-ca_guid', 16, 0, 64), ('qkey', 28, 0, 32), ('-qpn', 32, 0, 24), ('responder_resources', 35, 0, 8),
                   ('eecn', 36, 0, 24), ('initiator_depth', 39, 0, 8), ('remote_eecn', 40, 0, 24),
                   ('remote_response_timeout', 43, 0, 5), ('transport', 43, 5, 2), ('flow_control', 43, 7, 1),
                   ('-starting_psn', 44, 0, 24), ('local_response_timeout', 47, 0, 5), ('retry_count', 47, 5, 3),
                   ('pkey', 48, 0, 16), ('path_mtu', 50, 0, 4), ('rdc_exists', 50, 4, 1), ('rnr_retry_count', 50, 5, 3),
                   ('max_cm_retries', 51, 0, 4), ('srq', 51, 4, 1), ('ext_transport', 51, 5, 3),
                   *path('primary', 52), ('alternate', 96, 0, 344), ('ip.version', 140, 0, 16), ('-ip.port', 142, 0, 16),
                   ('-ip.src', 144, 0, 128), ('-ip.dst', 160, 0, 128), ('-private_data', 176, 0, 448))),
    0x11: ('MRA', (*IDS, ('msg_mraed', 8, 0, 2), ('service_timeout', 9, 0, 5), ('-private_data', 10, 0, 1776))),
    0x12: ('REJ', (*IDS, ('msg_rejected', 8, 0, 2), ('ari_bytes', 9, 0, 7), ('reason', 10, 0, 16), ('-ari', 12, 0, 576),
                   ('-private_data', 84, 0, 1184))),
    0x13: ('REP', (*IDS, ('qkey', 8, 0, 32), ('-qpn', 12, 0, 24), ('eecn', 16, 0, 24), ('-starting_psn', 20, 0, 24),
                   ('responder_resources', 24, 0, 8), ('initiator_depth', 25, 0, 8), ('target_ack_delay', 26, 0, 5),
                   ('failover', 26, 5, 2), ('flow_control', 26, 7, 1), ('rnr_retry_count', 27, 0, 3), ('srq', 27, 3, 1),
                   ('-ca_guid', 28, 0, 64), ('-private_data', 36, 0, 1568))),
    0x14: ('RTU', (*IDS, ('private_data', 8, 0, 1792))),
    0x15: ('DREQ', (*IDS, ('-remote_qpn', 8, 0, 24), ('private_data', 12, 0, 1760))),
    0x16: ('DREP', (*IDS, ('private_data', 8, 0, 1792))),
    0x17: ('SIDR_REQ', (('-request_id', 0, 0, 32), ('pkey', 4, 0, 16), ('service_id.space', 8, 0, 48),
                        ('-service_id.port', 14, 0, 16), ('ip.version', 16, 0, 16), ('-ip.port', 18, 0, 16),
                        ('-ip.src', 20, 0, 128), ('-ip.dst', 36, 0, 128), ('-private_data', 52, 0, 1440))),
    0x18: ('SIDR_REP', (('-request_id', 0, 0, 32), ('status', 4, 0, 8), ('info_bytes', 5, 0, 8), ('-qpn', 8, 0, 24),
                        ('service_id.space', 12, 0, 48), ('-service_id.port', 18, 0, 16), ('qkey', 20, 0, 32),
                        ('info', 24, 0, 576), ('-private_data', 96, 0, 1088))),
}
HEADER = (('base_version', 0, 0, 8), ('class', 1, 0, 8), ('class_version', 2, 0, 8), ('method', 3, 0, 8),
          ('status', 4, 0, 16), ('class_specific', 6, 0, 16), ('-tid', 8, 0, 64), ('reserved', 18, 0, 16),
          ('attribute_modifier', 20, 0, 32))

# (message, field) -> why uroce's values may be others than Linux's.
EXPLAINED = {
    ('REQ', 'initiator_depth'): 'the most that the device can, where a program asks for the most',
    ('REQ', 'responder_resources'): 'the same',
    ('REP', 'initiator_depth'): 'the same',
    ('REP', 'responder_resources'): 'the same',
}


def take(data, byte, bit, bits):
    """Of a string of bytes the bits from `bit` of `byte` on, counted from the most significant one."""
    value = int.from_bytes(data[byte:byte + (bit + bits + 7) // 8], 'big')
    return value >> -(bit + bits) % 8 & (1 << bits) - 1


def fields_of(mad):
    """@return (message's name, {field: value}); `reserved`: all bits that are in no field"""
    data = mad[HEADER_BYTES:]
    attribute = int.from_bytes(mad[16:18], 'big')
    name, fields = MESSAGES.get(attribute, (f'attribute {attribute:#x}', ()))
    values = {f'header.{field}': take(mad, *where) for field, *where in HEADER if field[0] != '-'}
    rest = int.from_bytes(data, 'big')
    for field, byte, bit, bits in fields:
        if field[0] != '-':
            values[field] = take(data, byte, bit, bits)
        rest &= ~((1 << bits) - 1 << len(data) * 8 - byte * 8 - bit - bits)
    values['reserved'] = rest
    return name, values


def mads(path_):
    """@return (frame, MAD) of each to QP 1"""
    for frame in packets(path_):
        layers = roce_layers(frame)
        if layers is None:
            continue
        bth = layers[1][8:]
        if bth[0] == UD_SEND_ONLY and int.from_bytes(bth[5:8], 'big') == GSI_QPN:
            mad = bth[BTH_BYTES + DETH_BYTES:-4]
            if len(mad) == MAD_BYTES and mad[1] == 7:
                yield frame, mad


class CmJudgement:
    def __init__(self):
        self.seen = (collections.Counter(), collections.Counter())      # MADs of uroce's, of Soft-RoCE's
        self.values = (collections.defaultdict(set), collections.defaultdict(set))
        self.golden = collections.defaultdict(set)
        for file in sorted(glob.glob(os.path.join(GOLDEN, '*.pcap'))):
            for _, mad in mads(file):
                self._add(self.golden, mad)

    @staticmethod
    def _add(values, mad):
        name, fields = fields_of(mad)
        for field, value in fields.items():
            values[name, field].add(value)
        return name

    def read(self, path_, mac):
        """@param mac  uroce's"""
        for frame, mad in mads(path_):
            side = 0 if frame[6:12] == mac else 1
            self.seen[side][self._add(self.values[side], mad)] += 1

    def differing(self):
        """@return ((message, field), uroce's values that Linux doesn't have)"""
        for key, ours in sorted(self.values[0].items()):
            only = ours - self.values[1][key] - self.golden[key]
            if only:
                yield key, only

    def problems(self):
        return [f'{" ".join(key)}: uroce sends {show(only)}, Linux {show(self.values[1][key] | self.golden[key])}, '
                'and nothing explains it' for key, only in self.differing() if key not in EXPLAINED]

    def table(self):
        """@return rows (message, uroce's, Soft-RoCE's, fields that were compared, where they differ)"""
        differing = collections.defaultdict(list)
        for (name, field), only in self.differing():
            differing[name].append(f'{field}: {show(only)}, not {show(self.values[1][name, field] | self.golden[name, field])}')
        for name in sorted(set(self.seen[0]) | set(self.seen[1])):
            fields = sum(key[0] == name for key in self.values[0])
            yield [name, str(self.seen[0][name]), str(self.seen[1][name]), str(fields), '; '.join(differing[name]) or 'none']


def show(values):
    return ', '.join(f'{value:#x}' if value > 9 else str(value) for value in sorted(values)) or 'nothing'
