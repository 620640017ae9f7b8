# SPDX-License-Identifier: BSD-3-Clause
"""fio's engine `rdma`: a client writes, reads or sends into the buffers of a server.

fio compares data only where the server gets it by `send`. For the others both sides' buffers are in files (iomem=mmapshared), one block
for each unit of iodepth, and these are compared here. The client's data don't change meanwhile (no refill, no scrambling), and the engine
takes a random block of the server for each operation, so no order is expected.
"""

import functools
import os

from rows import SERVER, Row, both, cm_listens, require

PORT = 7300
BLOCK = 16384
OPERATIONS = 2048           # for 64 blocks: that one of them is never taken happens once in 10^12 runs, and is allowed for
NEEDS = {'fio': 'fio'}


def command(name, *options):
    return ['fio', '--name=' + name, '--thread', '--ioengine=rdma', f'--port={PORT}', f'--bs={BLOCK}', '--verify_state_save=0', *options]


def blocks(path):
    with open(path, 'rb') as f:
        data = f.read()
    return [data[i:i + BLOCK] for i in range(0, len(data), BLOCK)]


def memory(verb, depth, lab, seconds):
    """Every block of who receives must be one of who has the data, and not be what it was before."""
    paths = {side: os.path.join(lab.data['dir'], f'fio-{side}') for side in ('server', 'client')}
    for path in paths.values():
        with open(path, 'wb') as f:
            f.write(os.urandom(depth * BLOCK))
    receives, has = ('server', 'client') if verb == 'write' else ('client', 'server')
    before = blocks(paths[receives])
    size = f'--size={OPERATIONS * BLOCK}'
    sides = both(lab, command('server', size, '--rw=read', f'--iodepth={depth}', '--iomem=mmapshared:' + paths['server']),
                 command('client', size, '--rw=write', '--hostname=' + SERVER, '--verb=' + verb, f'--iodepth={depth}',
                         '--scramble_buffers=0', '--iomem=mmapshared:' + paths['client']), cm_listens(lab), seconds)
    after, data = blocks(paths[receives]), set(blocks(paths[has]))
    wrong = [i for i, block in enumerate(after) if block not in data]
    require(len(after) == depth and not wrong, f'blocks {wrong} of the {receives} are none of the {has}', *sides)
    require(before != after, f'nothing arrived at the {receives}', *sides)


def send(depth, lab, seconds):
    """The server checks each block's CRC and place itself. Its depth: see docs/programs.md."""
    count = 256
    both(lab, command('server', f'--size={count * BLOCK}', '--rw=read', f'--iodepth={count}', '--verify=crc32c'),
         command('client', f'--size={count * BLOCK}', '--rw=write', '--hostname=' + SERVER, '--verb=send', f'--iodepth={depth}',
                 '--verify=crc32c', '--do_verify=0'), cm_listens(lab), seconds)


ROWS = [
    *(Row(f'fio {verb} {depth}', NEEDS, functools.partial(memory, verb, depth), daily=depth in (1, 64))
      for verb in ('write', 'read') for depth in (1, 4, 16, 64)),
    *(Row(f'fio send {depth}', NEEDS, functools.partial(send, depth), daily=depth == 16) for depth in (1, 16, 64)),
]
