# SPDX-License-Identifier: BSD-3-Clause
"""MPICH, whose device is UCX, between two hosts: tests/verbs/mpi.c, which compares everything that arrives. OpenMPI: tests/verbs/test_mpi.py."""

import os
import subprocess

from labs import LAB
from rows import Row, require
from uroce_lab import pairs
from uroce_lab.telemetry import ask

HERE = os.path.dirname(os.path.realpath(__file__))
MIN_PACKETS = 1000          # of each host: what the program sends is more by far
AGENT = """#!/bin/sh
host=h${{1##*.}}
shift
exec {lab} run --name {name} $host sh -c "$*"
"""


def packets(lab, host):
    return ask(lab.data, lab.hosts[host], '/uroce/engine,0')['load']['tx_packets']


def mpich(lab, seconds):
    program, agent = (os.path.join(lab.data['dir'], name) for name in ('mpich', 'agent'))
    built = subprocess.run(['mpicc.mpich', '-w', '-O1', '-o', program, os.path.join(HERE, '../verbs/mpi.c')], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    require(built.returncode == 0, 'mpicc failed:\n' + built.stdout)
    with open(agent, 'w', encoding='ascii') as f:
        f.write(AGENT.format(lab=LAB, name=lab.name))
    os.chmod(agent, 0o755)
    before = {host: packets(lab, host) for host in lab.hosts}
    done = lab.run('h1', 'mpirun.mpich', '-launcher', 'rsh', '-launcher-exec', agent, '-hosts', '198.18.0.1,198.18.0.2', '-n', '2',
                   '-genv', 'UCX_NET_DEVICES', pairs.DEVICE + ':1', '-genv', 'UCX_TLS', 'rc,self', program, timeout=seconds)
    require(done.returncode == 0 and 'all right' in done.stdout, f'status {done.returncode}:\n{done.stdout}')
    for host, count in before.items():
        require(packets(lab, host) - count > MIN_PACKETS, f'{host}: by another way\n{done.stdout}')


ROWS = [Row('mpich', {'mpich': 'mpirun.mpich', 'libmpich-dev': 'mpicc.mpich'}, mpich, seconds=120)]
