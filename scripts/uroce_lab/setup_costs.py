# SPDX-License-Identifier: BSD-3-Clause
"""What it costs a program to register memory and to make connections, measured in a lab of its own.

Used by scripts/bench and tests/bench/setup_costs.
"""

import contextlib
import os
import re
import subprocess
import time

from . import LabError, pairs, places

LAB_SECONDS = 120
PROGRAM_SECONDS = 300
LISTEN_SECONDS = 0.5
CONNECTIONS = {'four_per_s': ('-n', '4000', '-w', '4'), 'one_per_s': ('-n', '1500', '-w', '1'), 'many_per_s': ('-n', '2000', '-w', '2000', '-k')}
BACKLOG = 4096


@contextlib.contextmanager
def lab_of(build, *options):
    """A lab of that build's daemons and libraries."""
    command, name = os.path.join(places.SCRIPTS, 'uroce-lab'), f'costs{os.getpid()}'
    env = {**os.environ, 'UROCE_BUILD': os.path.abspath(build)}
    up = subprocess.run([command, 'up', '--name', name, *options], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LAB_SECONDS,
                        check=False, env=env)
    if up.returncode:
        raise LabError((up.stderr + up.stdout).strip())
    try:
        yield pairs.Lab(name)
    finally:
        subprocess.run([command, 'down', '--name', name], stdin=subprocess.DEVNULL, capture_output=True, check=False, env=env)


def said(done):
    if done.returncode:
        raise LabError(f'status {done.returncode}: {(done.stdout.strip().splitlines() or ["no message"])[-1]}')
    return done.stdout


def registrations(lab, program, *words):
    """@return what verbs_mr_cost printed"""
    out = said(lab.run('h1', program, *words, timeout=PROGRAM_SECONDS))
    return {key: float(value) for key, value in re.findall(r'(\w+)=([\d.]+)', out)}


def connections(lab, program):
    """@return connections per second of cm_load, by how many are opened at a time"""
    server = pairs.Side(lab, 'h1', [program, 'server', '-b', str(BACKLOG)])
    try:
        time.sleep(LISTEN_SECONDS)
        address = f'198.18.0.{lab.hosts["h1"]["index"]}'
        return {key: float(re.search(r'(\d+) per second', said(lab.run('h2', program, 'client', address, *words, timeout=PROGRAM_SECONDS)))[1])
                for key, words in CONNECTIONS.items()}
    finally:
        server.kill()
