# SPDX-License-Identifier: BSD-3-Clause
"""A process of an MPI program is killed while it communicates: mpirun ends all, and no daemon keeps anything of them."""

import functools
import os
import signal
import time

import mpi
import mpi_hosts
from rows import LEFT_SECONDS, Row, require, until
from uroce_lab import pairs
from uroce_lab.telemetry import ask

NEEDS = {**mpi.OPENMPI, 'netpipe-openmpi': 'NPopenmpi'}
# It measures for minutes.
PROGRAM = ['NPopenmpi', '-l', '1', '-u', '1048576', '-n', '20000', '-o', '/dev/null']


def qps(lab, host):
    return ask(lab.data, lab.hosts[host], '/uroce/qp')['numbers']


def killed(way, lab, seconds):
    end = time.monotonic() + seconds
    before = {host: mpi_hosts.packets(lab, host) for host in lab.hosts}
    mpirun = pairs.Side(lab, 'h1', ['timeout', '-k', '10', str(seconds), *mpi.openmpi_command(lab, PROGRAM, way=way)])
    try:
        until('they do not communicate by the device',
              lambda: all(mpi_hosts.packets(lab, host) - packets > mpi.MIN_PACKETS for host, packets in before.items()), seconds, mpirun)
        os.kill(ask(lab.data, lab.hosts['h2'], f'/uroce/qp,{qps(lab, "h2")[0]}')['pid'], signal.SIGKILL)
        require(mpirun.wait(end) and mpirun.status not in (0, mpi.TIMEOUT), 'mpirun does not end with an error', mpirun)
    finally:
        mpirun.kill()
    require('signal 9 (Killed)' in mpirun.text(), 'mpirun tells of no process that was killed', mpirun)
    for host in lab.hosts:
        until(f'{host}: QPs are left', lambda host=host: not qps(lab, host), LEFT_SECONDS)


ROWS = [Row(f'openmpi killed {name}', NEEDS, functools.partial(killed, way), daily=False) for name, way in (('rc', mpi.RC), ('ud', mpi.UD))]
