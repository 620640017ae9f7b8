# SPDX-License-Identifier: BSD-3-Clause
"""LAMMPS on four processes of two hosts: energy, temperature and pressure of a melt are those that one process alone computes."""

import os
import re

import mpi
from rows import Row, require

MELT = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 6 0 6 0 6
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
thermo 20
run 60
"""
STEPS = 4       # that it prints: 0, 20, 40, 60


def printed(said):
    table = re.search(r'^ *Step .*\n((?: .*\n)+)Loop time of \S+ on (\d+) procs', said, re.M)
    require(table, said)
    return int(table[2]), [line.split() for line in table[1].splitlines()]


def melt(lab, seconds):
    path = os.path.join(lab.data['dir'], 'melt')
    with open(path, 'w', encoding='ascii') as f:
        f.write(MELT)
    program = ['lmp', '-in', path, '-log', 'none']
    alone, right = printed(lab.run('h1', *program, timeout=seconds).stdout)
    together, found = printed(mpi.openmpi(lab, seconds, program, 2))
    require((alone, together, len(right)) == (1, 4, STEPS) and found == right, f'{found}, not {right}')


ROWS = [Row('lammps', {**mpi.OPENMPI, 'lammps': 'lmp'}, melt, daily=False)]
