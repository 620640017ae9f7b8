# SPDX-License-Identifier: BSD-3-Clause
"""The HPC Challenge with the small input that it has as an example: HPL, PTRANS, RandomAccess, FFT and others check what they compute."""

import os
import re
import shutil

import mpi
from rows import Row, require

EXAMPLE = '/usr/share/doc/hpcc/examples/_hpccinf.txt'
RIGHT = {'Success': '1', 'MPIRandomAccess_Errors': '0', 'MPIRandomAccess_LCG_Errors': '0'}


def small_input():
    """@return what is in hpcc's example, for matrices that take little time"""
    with open(EXAMPLE, encoding='ascii') as f:
        return re.sub(r'(?m)^1000( +Ns)', r'200\1', f.read())


def hpcc(lab, seconds):
    folder = os.path.join(lab.data['dir'], 'hpcc')
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    with open(os.path.join(folder, 'hpccinf.txt'), 'w', encoding='ascii') as out:
        out.write(small_input())
    said = mpi.openmpi(lab, seconds, ['hpcc'], 2, folder=folder)
    with open(os.path.join(folder, 'hpccoutf.txt'), encoding='ascii') as f:
        said += f.read()
    found = dict(re.findall(r'^(\w+)=(\S+)$', said, re.M))
    for name, value in RIGHT.items():
        require(found.get(name) == value, f'{name} is {found.get(name)}:\n{said}')
    # Of PTRANS, then of HPL.
    require(re.findall(r'(\d+) tests completed and (\w+) residual checks', said) ==
            [('5', 'passed'), ('0', 'failed'), ('1', 'passed'), ('0', 'failed')], said)


ROWS = [Row('hpcc', {**mpi.OPENMPI, 'hpcc': EXAMPLE}, hpcc, seconds=120, daily=False)]
