# SPDX-License-Identifier: BSD-3-Clause
"""MPI on the hosts of a lab: a script in the place of ssh starts processes on the other hosts."""

import os

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


def packets(lab, host):
    """@return how many the host has sent"""
    return ask(lab.data, lab.hosts[host], '/uroce/engine,0')['load']['tx_packets']
