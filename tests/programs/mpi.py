# SPDX-License-Identifier: BSD-3-Clause
"""MPI programs between hosts: no rows, but how the rows of MPI programs start them."""

import glob
import os

import mpi_hosts
from rows import require

MIN_PACKETS = 100           # of each host: all of these send more by far
TIMEOUT = 124               # status of timeout(1)
OPENMPI = {'openmpi-bin': 'mpirun.openmpi', 'libopenmpi-dev': 'mpicc.openmpi'}
MPICH = {'mpich': 'mpiexec.mpich', 'libmpich-dev': '/usr/lib/*/libmpich.so'}


class Way:
    """How MPI gets at the device. Processes of the same host reach each other by it, too."""

    def __init__(self, *options, **environment):
        self.options = options
        self.environment = environment


def by_ucx(transport):
    return Way('--mca', 'pml', 'ucx', '--mca', 'osc', 'ucx', UCX_NET_DEVICES='uroce0:1', UCX_TLS=f'{transport},self')


RC, UD = by_ucx('rc'), by_ucx('ud')
# MPICH 4.0.2's own shared memory loses a MPI_Put() between processes of one host (docs/programs.md).
ALL_BY_UCX = Way(**RC.environment, MPIR_CVAR_NOLOCAL='1')
# Without osc pt2pt MPI_Win_allocate() fails: see docs/programs.md. OpenMPI 5 hasn't got it, and one-sided operations go by UCX there.
PT2PT = glob.glob('/usr/lib/*/openmpi/lib/openmpi*/mca_osc_pt2pt.so')
OFI = Way('--mca', 'pml', 'cm', '--mca', 'mtl', 'ofi', '--mca', 'mtl_ofi_provider_include', 'verbs;ofi_rxm', '--mca', 'osc', 'pt2pt' if PT2PT else 'ucx',
          **({} if PT2PT else RC.environment))


def ended(lab, seconds, command):
    """Run `command` on h1, which starts processes on all hosts. @return what it said"""
    before = {host: mpi_hosts.packets(lab, host) for host in lab.hosts}
    # SIGTERM, so that it ends its processes on all hosts.
    done = lab.run('h1', 'timeout', '-k', '10', str(seconds), *command, timeout=seconds + 20)
    require(done.returncode != TIMEOUT, f'no end after {seconds} s:\n{done.stdout}')
    require(done.returncode == 0, f'status {done.returncode}:\n{done.stdout}')
    for host, packets in before.items():
        require(mpi_hosts.packets(lab, host) - packets > MIN_PACKETS, f'{host}: by another way\n{done.stdout}')
    return done.stdout


def openmpi_command(lab, program, per_host=1, way=RC, folder=None, processes=None):
    """`processes`: how many, if not `per_host` on each host of the lab."""
    names = [os.uname().nodename, *(lab.tcp_address(host) for host in lab.hosts if host != 'h1')]
    # OpenMPI 5 with --oversubscribe starts all of them on the first host, unless it is told how many each gets.
    return [
        'mpirun.openmpi', '--allow-run-as-root', '--oversubscribe', '-H', ','.join(f'{name}:{per_host}' for name in names),
        '--map-by', f'ppr:{per_host}:node', *(['-n', str(processes)] if processes else []),
        '--mca', 'plm_rsh_agent', mpi_hosts.agent(lab, lab.data['dir']), '--mca', 'mpi_yield_when_idle', '1', *way.options,
        *(word for name, value in way.environment.items() for word in ('-x', f'{name}={value}')), *(['-wdir', folder] if folder else []),
        lab.data['programs']['uroce-run'], *program]


def openmpi(lab, seconds, program, *options, **more):
    return ended(lab, seconds, openmpi_command(lab, program, *options, **more))


def mpich_command(lab, program, per_host=1, way=RC, folder=None, processes=None):
    """It hands its environment on, by which a process on h2 would go to the daemon of h1: only PATH then."""
    return [
        'mpiexec.mpich', '-genvlist', 'PATH', '-localhost', '198.18.0.1', '-launcher', 'ssh', '-launcher-exec', mpi_hosts.agent(lab, lab.data['dir']),
        '-hosts', '198.18.0.1,198.18.0.2', '-ppn', str(per_host), '-n', str(processes or 2 * per_host), *(['-wdir', folder] if folder else []),
        *(word for name, value in way.environment.items() for word in ('-genv', name, value)), lab.data['programs']['uroce-run'], *program]


def mpich(lab, seconds, program, *options, **more):
    return ended(lab, seconds, mpich_command(lab, program, *options, **more))
