# SPDX-License-Identifier: BSD-3-Clause
"""NetPIPE over MPI with -i: messages of about 100 sizes up to 1 MiB, and instead of times it compares every byte."""

import functools
import os
import re

import mpi
from rows import Row, require

LONGEST = 1 << 20


def netpipe(run, program, lab, seconds):
    said = run(lab, seconds, [program, '-l', '1', '-u', str(LONGEST), '-n', '10', '-i', '-o', os.path.join(lab.data['dir'], 'np.out')])
    tests = re.findall(r'^ *\d+: +(\d+) bytes +10 times --> +(.*)$', said, re.M)
    require(len(tests) > 30 and all(result.strip() == 'Integrity check passed' for _, result in tests), said)


ROWS = [
    Row('netpipe openmpi', {**mpi.OPENMPI, 'netpipe-openmpi': 'NPopenmpi'}, functools.partial(netpipe, mpi.openmpi, 'NPopenmpi'), seconds=90),
    Row('netpipe mpich', {**mpi.MPICH, 'netpipe-mpich2': 'NPmpich2'}, functools.partial(netpipe, mpi.mpich, 'NPmpich2'), seconds=90,
        daily=False),
]
