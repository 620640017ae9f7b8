# SPDX-License-Identifier: BSD-3-Clause
"""Intel MPI Benchmarks, built with -DCHECK: the column `defects` of each result says how much of what was received is wrong.

No package has them: docs/programs.md says which programs the rows look for.
"""

import functools
import re
import shutil

import mpi
from rows import Row, require

ITERATIONS = 5
LONGEST = 20                # messages of up to 2^20 bytes
MPI1 = ('PingPong', 'PingPing', 'Sendrecv', 'Exchange', 'Bcast', 'Allgather', 'Allgatherv', 'Gather', 'Gatherv', 'Scatter', 'Scatterv', 'Alltoall',
        'Alltoallv', 'Reduce', 'Reduce_scatter', 'Reduce_scatter_block', 'Allreduce')

# Not Ireduce_scatter: docs/programs.md.
NBC = tuple(f'{name}_pure' for name in ('Ibcast', 'Iallgather', 'Iallgatherv', 'Igather', 'Igatherv', 'Iscatter', 'Iscatterv', 'Ialltoall', 'Ialltoallv',
                                        'Ireduce', 'Iallreduce'))
RMA = ('Unidir_put', 'Unidir_get', 'Bidir_put', 'Bidir_get', 'One_put_all', 'One_get_all', 'All_put_all', 'All_get_all', 'Put_local', 'Put_all_local',
       'Exchange_put', 'Exchange_get', 'Accumulate', 'Get_accumulate', 'Get_local', 'Get_all_local')
RMA_OF_TWO = ('Fetch_and_op', 'Compare_and_swap')       # that IMB runs with two processes only


def results(said):
    """@return {benchmark: the values of its column `defects`}"""
    found = {}
    for name, table in re.findall(r'^# Benchmarking (\w+).*?\n((?:.+\n)*? +#bytes.* defects *\n(?: +[\d].*\n)+)', said, re.M):
        found.setdefault(name, []).extend(line.split()[-1] for line in table.splitlines() if re.match(r' +\d', line))
    return found


def checked(name, benchmarks, per_host, way, lab, seconds):
    program = [shutil.which(name), '-iter', str(ITERATIONS), '-msglog', f'0:{LONGEST}', '-npmin', str(2 * per_host), *benchmarks]
    said = mpi.openmpi(lab, seconds, program, per_host, way)
    found = results(said)
    missing = [benchmark for benchmark in benchmarks if not found.get(benchmark)]
    require(not missing, f'no result of {", ".join(missing)}:\n{said}')
    require(all(defects == '0.00' for values in found.values() for defects in values), f'defects:\n{said}')


def row(program, benchmarks, label, per_host, way):
    return Row(f'{program} {label} {2 * per_host}', mpi.OPENMPI, functools.partial(checked, program, benchmarks, per_host, way), seconds=240, daily=False,
               built={'IMB 2021 with -DCHECK': program})


ROWS = [
    row('IMB-MPI1', MPI1, 'ucx rc', 1, mpi.RC),
    row('IMB-MPI1', MPI1, 'ucx rc', 2, mpi.RC),
    row('IMB-MPI1', MPI1, 'ucx ud', 1, mpi.UD),
    row('IMB-MPI1', MPI1, 'ofi', 1, mpi.OFI),
    row('IMB-NBC', NBC, 'ucx rc', 1, mpi.RC),
    row('IMB-NBC', NBC, 'ucx rc', 2, mpi.RC),
    row('IMB-RMA', (*RMA, *RMA_OF_TWO), 'ucx rc', 1, mpi.RC),
    row('IMB-RMA', RMA, 'ucx rc', 2, mpi.RC),
]
