# SPDX-License-Identifier: BSD-3-Clause
"""iperf3 over rsockets by librspreload. It counts at both ends; that all of it was RDMA is what the daemon's packets say."""

import functools
import glob
import json
import re

import mpi_hosts
from rows import SERVER, Row, both, cm_listens, require

PRELOAD = '/usr/lib/*/rsocket/librspreload.so'
NEEDS = {'iperf3': 'iperf3', 'librdmacm1': PRELOAD}
BYTES = 50 << 20
BLOCK = 128 << 10          # the server ends when the client says so, and may not have read the last one then
BYTES_OF_PACKET = 4096


def stream(options, lab, seconds):
    preload, = glob.glob(PRELOAD)
    before = {host: mpi_hosts.packets(lab, host) for host in lab.hosts}
    program = ['env', 'LD_PRELOAD=' + preload, 'iperf3']
    sides = both(lab, [*program, '-s', '-1'], [*program, '-c', SERVER, '-n', str(BYTES), '-J', *options], cm_listens(lab), seconds)
    text = sides[1].text()
    require(text.startswith('{'), 'no JSON', *sides)
    end = json.loads(text)['end']
    require('error' not in text, 'an error', *sides)
    ways = [{key: end[key]['bytes'] for key in end if re.fullmatch(f'sum_{way}({other})?', key)}
            for way, other in (('sent', '_bidir_reverse'), ('received', '_bidir_reverse'))]
    sent, received = (sum(way.values()) for way in ways)
    require(sent >= BYTES and sent - BLOCK * 3 <= received <= sent, f'{sent} bytes sent, {received} received', *sides)
    packets = sum(mpi_hosts.packets(lab, host) - before[host] for host in lab.hosts)
    require(packets * BYTES_OF_PACKET >= received, f'{packets} packets are too few for {received} bytes', *sides)


ROWS = [Row(f'iperf3 {" ".join(options)}'.strip(), NEEDS, functools.partial(stream, options), daily=not options)
        for options in ((), ('-R',), ('-P', '3'), ('--bidir',))]
