# SPDX-License-Identifier: BSD-3-Clause
"""gloo's benchmark with its transport `ibverbs`, two processes. It compares the results of its first run and says what differs.

No package has it: docs/programs.md says which programs the rows look for.
"""

import functools
import os
import shutil

import mpi_hosts
from rows import Row, both, require
from uroce_lab import pairs

BUILT = {"gloo's benchmark": 'gloo-benchmark'}
ELEMENTS = 10000
ITERATIONS = 20
MIN_PACKETS = 100
GID_IPV4 = 4
# Those that compare what they get (`verify()` of gloo/benchmark/main.cc), for two processes.
BENCHMARKS = ('allgather', 'allgather_v', 'allgather_ring', 'allreduce_ring', 'allreduce_ring_chunked', 'allreduce_halving_doubling', 'allreduce_bcube',
              'alltoall', 'alltoall_v', 'broadcast', 'broadcast_one_to_all', 'reduce', 'reduce_scatter', 'scatter', 'sendrecv_roundtrip')


def command(name, rank, folder, device, gid_index):
    return ['gloo-benchmark', '-s', '2', '-r', str(rank), '--shared-path', folder, '-x', name, '-t', 'ibverbs', '--ib-device', device,
            '--ib-index', str(gid_index), '--elements', str(ELEMENTS), '--iteration-count', str(ITERATIONS), name]


def benchmark(names, lab, seconds):
    for name in names:
        folder = os.path.join(lab.data['dir'], 'gloo')
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        before = {host: mpi_hosts.packets(lab, host) for host in lab.hosts}
        program = [command(name, rank, folder, pairs.DEVICE, lab.gid_index(host, GID_IPV4)) for rank, host in enumerate(lab.hosts)]
        sides = both(lab, *program, lambda _: True, seconds)
        said = sides[0].text()
        rows = [line.split() for line in said.splitlines() if line.split()[1:2] == [str(ELEMENTS)]]
        require(len(rows) == 1 and rows[0][-1] == str(ITERATIONS) and 'verify=true' in said, f'{name}: no result', *sides)
        for host, packets in before.items():
            require(mpi_hosts.packets(lab, host) - packets > MIN_PACKETS, f'{name}: by another way', *sides)


ROWS = [Row('gloo', {}, functools.partial(benchmark, BENCHMARKS), seconds=60, daily=False, built=BUILT)]
