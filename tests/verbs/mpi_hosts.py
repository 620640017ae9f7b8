# SPDX-License-Identifier: BSD-3-Clause
"""MPI on the hosts of a lab: a script in the place of ssh starts processes on the other hosts."""

import os
import shutil
import subprocess

from uroce_lab import daemon
from uroce_lab.telemetry import ask

# OpenMPI 5 and MPICH tell hosts apart by their names, which a lab's share. MPICH puts options before the host.
AGENT = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
host=h${{1##*.}}
shift
exec unshare --uts sh -c 'hostname "$0"; exec "$@"' $host {lab} run --name {name} $host sh -c "$*"
"""


def agent(lab, folder):
    """@return the path of the script"""
    path = os.path.join(folder, 'agent')
    with open(path, 'w', encoding='ascii') as f:
        f.write(AGENT.format(lab=os.path.join(daemon.ROOT, 'scripts/uroce-lab'), name=lab.name))
    os.chmod(path, 0o755)
    return path


def lacking():
    """What OpenMPI wants and this machine or user lacks, None if nothing."""
    if not shutil.which('mpirun') or not shutil.which('mpicc'):
        return 'OpenMPI is not installed'
    return None if os.geteuid() == 0 else "an ordinary user's hosts have one address, and so are one for mpirun"


def compiled(folder):
    """@return the path of mpi.c's program"""
    program = os.path.join(folder, 'mpi')
    subprocess.run(['mpicc', '-O1', '-o', program, os.path.join(os.path.dirname(os.path.realpath(__file__)), 'mpi.c')], check=True)
    return program


def openmpi(lab, folder, *program):
    """@return the command that, run on h1, starts one process of the program on h1 and one on h2, with OpenMPI over UCX, as docs/operations.md says"""
    return ['mpirun', '--allow-run-as-root', '-H', f'{os.uname().nodename},198.18.0.2', '--mca', 'plm_rsh_agent', agent(lab, folder), '--mca', 'pml', 'ucx',
            '--mca', 'osc', 'ucx', '-x', 'UCX_NET_DEVICES=uroce0:1', '-x', 'UCX_TLS=rc,self', lab.data['programs']['uroce-run'], *program]


def packets(lab, host):
    """@return how many the host has sent"""
    return ask(lab.data, lab.hosts[host], '/uroce/engine,0')['load']['tx_packets']
