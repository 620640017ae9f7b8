# SPDX-License-Identifier: BSD-3-Clause
"""Programs of TCP over rsockets by librspreload: socat, and curl with an answer by socat.

Addresses of sockets come first: librspreload's recv() of rdma-core 44 calls address 0 unless the program has made a socket before, and socat
receives its own messages by a pair of them.
"""

import glob
import os

import mpi_hosts
from iperf3 import BYTES_OF_PACKET, PRELOAD
from rows import SERVER, Row, both, cm_listens, require

PORT = 7000
BYTES = 10 << 20
NEEDS = {'socat': 'socat', 'librdmacm1': PRELOAD}


def preloaded(*words):
    preload, = glob.glob(PRELOAD)
    return ['env', 'LD_PRELOAD=' + preload, *words]


def transfer(lab, server, client, sent, received, seconds):
    """Both programs end, what was received is what was sent, and it went as packets of RDMA."""
    before = sum(mpi_hosts.packets(lab, host) for host in lab.hosts)
    sides = both(lab, preloaded(*server), preloaded(*client), cm_listens(lab), seconds)
    packets = sum(mpi_hosts.packets(lab, host) for host in lab.hosts) - before
    with open(received, 'rb') as f:
        require(f.read() == sent, 'other bytes', *sides)
    require(packets * BYTES_OF_PACKET >= len(sent), f'{packets} packets are too few for {len(sent)} bytes', *sides)


def files(lab, content):
    paths = [os.path.join(lab.data['dir'], f'sockets-{name}') for name in ('sent', 'received')]
    with open(paths[0], 'wb') as f:
        f.write(content)
    with open(paths[1], 'wb'):
        pass
    return paths


def socat(lab, seconds):
    data = os.urandom(BYTES)
    sent, received = files(lab, data)
    transfer(lab, ['socat', '-u', f'TCP4-LISTEN:{PORT}', 'OPEN:' + received], ['socat', '-U', f'TCP4:{SERVER}:{PORT}', f'OPEN:{sent},rdonly'],
             data, received, seconds)


def curl(lab, seconds):
    data = os.urandom(BYTES)
    answer, received = files(lab, b'HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n' % len(data) + data)
    transfer(lab, ['socat', '-U', f'TCP4-LISTEN:{PORT}', f'OPEN:{answer},rdonly'], ['curl', '-sS', '-o', received, f'http://{SERVER}:{PORT}/'],
             data, received, seconds)


ROWS = [Row('socat', NEEDS, socat), Row('curl', {**NEEDS, 'curl': 'curl'}, curl)]
