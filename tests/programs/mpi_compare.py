# SPDX-License-Identifier: BSD-3-Clause
"""tests/verbs/mpi.c by each MPI and each way to the device: messages of all sizes, collective and one-sided operations, every byte compared."""

import functools
import os
import subprocess

import mpi
from labs import lab_command, lab_up
from rows import Row, require

SOURCE = os.path.join(os.path.dirname(os.path.realpath(__file__)), '../verbs/mpi.c')


def compared(run, compiler, per_host, way, loss, lab, seconds):
    program = os.path.join(lab.data['dir'], compiler)
    subprocess.run([compiler, '-O1', '-w', '-o', program, SOURCE], check=True)
    if loss:
        lab_command('impair', '--name', lab.name, 'all', f'loss={loss}')
    try:
        said = run(lab, seconds, [program], per_host, way)
    finally:
        if loss:
            lab_command('impair', '--name', lab.name, 'all', 'none')
    require('all right' in said, said)


def of_four_hosts(lab, seconds):
    """In a lab of its own: memif joins two hosts only."""
    with lab_up('--hosts', '4', '--wire', 'veth', name=f'{lab.name}h') as more:
        compared(*OPENMPI, 1, mpi.RC, 0, more, seconds)
        require(more.whole(), f'a daemon ended:\n{more.logs()}')


def row(name, needs, *what, **options):
    return Row(name, needs, functools.partial(compared, *what), **options)


OPENMPI, MPICH = (mpi.openmpi, 'mpicc.openmpi'), (mpi.mpich, 'mpicc.mpich')
# OpenMPI, two processes, UCX over RC: tests/verbs/test_mpi.py.
ROWS = [
    row('openmpi ucx rc 4', mpi.OPENMPI, *OPENMPI, 2, mpi.RC, 0, seconds=120, daily=False),
    row('openmpi ucx rc 8', mpi.OPENMPI, *OPENMPI, 4, mpi.RC, 0, seconds=240, daily=False),
    Row('openmpi ucx rc hosts', mpi.OPENMPI, of_four_hosts, seconds=120, daily=False),
    row('openmpi ucx rc loss', mpi.OPENMPI, *OPENMPI, 1, mpi.RC, 0.01, seconds=120, daily=False),
    row('openmpi ucx ud 2', mpi.OPENMPI, *OPENMPI, 1, mpi.UD, 0, seconds=120, daily=False),
    row('openmpi ofi 2', mpi.OPENMPI, *OPENMPI, 1, mpi.OFI, 0, seconds=120, daily=False),
    row('openmpi ofi 4', mpi.OPENMPI, *OPENMPI, 2, mpi.OFI, 0, seconds=180, daily=False),
    row('mpich ucx rc 2', mpi.MPICH, *MPICH, 1, mpi.RC, 0, seconds=120),
    row('mpich ucx rc 4', mpi.MPICH, *MPICH, 2, mpi.ALL_BY_UCX, 0, seconds=180, daily=False),
]
