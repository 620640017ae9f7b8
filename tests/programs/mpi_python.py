# SPDX-License-Identifier: BSD-3-Clause
"""Python's mpi4py: objects of many sizes around a ring, gathered and scattered, and buffers that are summed up."""

import mpi
from rows import Row, require

PYTHON = '/usr/bin/python3'     # mpi4py is Debian's, another Python doesn't find it
PROGRAM = """
import array
from mpi4py import MPI

world = MPI.COMM_WORLD
me, size = world.Get_rank(), world.Get_size()
for n in (0, 1, 100, 10000, 1000000):
    thing = {'from': me, 'data': bytes([me]) * n, 'list': list(range(n // 100))}
    got = world.sendrecv(thing, (me + 1) % size, source=(me - 1) % size)
    before = (me - 1) % size
    assert got == {'from': before, 'data': bytes([before]) * n, 'list': list(range(n // 100))}, n
    assert world.allgather((me, n)) == [(i, n) for i in range(size)]
    assert world.alltoall([(me, to, n) for to in range(size)]) == [(i, me, n) for i in range(size)]
mine, sums = array.array('d', range(me, me + 100000)), array.array('d', bytes(800000))
world.Allreduce(mine, sums, MPI.SUM)
assert list(sums) == [size * i + size * (size - 1) / 2 for i in range(100000)]
if me == 0:
    print('all right on', size)
"""


def objects(lab, seconds):
    require('all right on 4' in mpi.openmpi(lab, seconds, [PYTHON, '-c', PROGRAM], 2), 'not all right')


ROWS = [Row('mpi4py', {**mpi.OPENMPI, 'python3-mpi4py': '/usr/lib/python3/dist-packages/mpi4py'}, objects, daily=False)]
