# SPDX-License-Identifier: BSD-3-Clause
"""MPICH's test suite over OpenMPI and over MPICH: the tests of its lists that have several processes, half of them on either host, folder by folder.

No package has it: docs/programs.md says what the rows look for.
"""

import functools
import os
import shutil
import time

import mpi
import mpi_hosts
from rows import Row, require

# Leads to the suite's own script `runtests`: the folders of tests are beside it.
SUITE = 'mpi-testsuite'
SUITE_MPICH = 'mpi-testsuite-mpich'
MOST_PROCESSES = 12
TEST_SECONDS = 60
SHOWN_BYTES = 1500          # of what a test that failed said
RIGHT = 'No Errors'

# What fails without uroce as well, or takes too long: docs/programs.md.
EXCLUDED = {
    'coll': (
        'allred 4 -count=100',                                                  # wrong sums of 8-bit integers
        'oplxor 4', 'oplxor 5',                                                 # MPI_LXOR of floating-point numbers is refused
        *(f'{name} {n}' for name in ('nonblocking2', 'nonblocking3') for n in (4, 5, 10)),     # SIGSEGV in MPI_Ialltoallw()
    ),
    'comm': (
        'ctxalloc 2', 'ctxsplit 4',                                             # longer than a minute
        'comm_idup_nb 6',                                                       # doesn't end
        'comm_idup_isend 6',                                                    # doesn't end by UCX, also over shared memory
    ),
    'pt2pt': (
        'sendflood 8',                                                          # half a minute to a minute
    ),
    'topo': (
        'cartmap1 4', 'cartsuball 4', 'graphmap1 4',                            # other results than the tests expect
        'distgraph1 4', 'dgraph_unwgt 4',                                       # `Unable to extract peer`: processes of the other host
    ),
}

EXCLUDED_OF_MPICH = {
    'coll': ('nonblocking3 10',),                                               # longer than a minute: ten processes that spin on two cores
    'comm': ('ctxalloc 2', 'ctxsplit 4'),                                       # longer than a minute
    'datatype': ('concurrent_irecv 3',),                                        # a strided receive is said to be truncated; over TCP it doesn't end
    'pt2pt': ('sendflood 8',),                                                  # half a minute to a minute
    'rma': (
        'manyrma3 2',                                                           # SIGSEGV in libmpich
        'large_acc_flush_local 3', 'rma_contig 2 -iter=10000',                  # longer than a minute
    ),
}


class Test:
    """A line of a folder's `testlist`: a program, its number of processes, and words like arg=-count=10."""

    def __init__(self, line):
        self.program, processes, *words = line.split()
        self.processes = int(processes)
        self.arguments = [word.removeprefix('arg=') for word in words if word.startswith('arg=')]
        self.keys = {word.partition('=')[0] for word in words}
        self.name = ' '.join([self.program, processes, *self.arguments])

    def of_use(self):
        """Not tests of one process, nor those that take gigabytes, are to end with an error, have other settings of MPICH, or fail with MPICH."""
        return 1 < self.processes <= MOST_PROCESSES and not self.keys & {'mem', 'resultTest', 'env', 'xfail'}


def listed(folder):
    """@return the tests of a folder, {name: Test}: a name that is there twice, once"""
    with open(os.path.join(folder, 'testlist'), encoding='ascii') as f:
        tests = [Test(line) for line in f if line.strip() and not line.startswith('#')]
    return {test.name: test for test in tests if test.of_use()}


def failure(lab, command_of, folder, test, seconds):
    """@return what went wrong, '' if nothing"""
    command = command_of(lab, [os.path.join(folder, test.program), *test.arguments], (test.processes + 1) // 2, folder=folder, processes=test.processes)
    done = lab.run('h1', 'timeout', '-k', '10', str(seconds), *command, timeout=seconds + 20)
    if done.returncode == 0 and RIGHT in done.stdout:
        return ''
    how = f'no end after {seconds} s' if done.returncode == mpi.TIMEOUT else f'status {done.returncode}'
    return f'{test.name}: {how}\n{done.stdout[:SHOWN_BYTES]}'


def passes(suite, command_of, excluded, folders, lab, seconds):
    suite = os.path.dirname(os.path.realpath(shutil.which(suite)))
    end = time.monotonic() + seconds
    before = {host: mpi_hosts.packets(lab, host) for host in lab.hosts}
    right, failures, missing, late = 0, [], [], []
    for name in folders:
        folder = os.path.join(suite, name)
        for test in listed(folder).values():
            if test.name in excluded.get(name, ()):
                continue
            if not os.access(os.path.join(folder, test.program), os.X_OK):
                missing.append(test.program)
            elif time.monotonic() > end:
                late.append(test.name)
            elif problem := failure(lab, command_of, folder, test, TEST_SECONDS):
                failures.append(f'{name}: {problem}')
            else:
                right += 1
    print(f'{right} tests of {", ".join(folders)} right' + (f'; not built: {", ".join(dict.fromkeys(missing))}' if missing else ''), flush=True)
    require(not failures, '\n'.join([f'{len(failures)} tests failed:', *failures]))
    require(not late, f'time was over before {", ".join(late)}')
    for host, packets in before.items():
        require(mpi_hosts.packets(lab, host) - packets > mpi.MIN_PACKETS, f'{host}: by another way')


def row(name, *folders):
    return Row(f'{SUITE} {name}', mpi.OPENMPI, functools.partial(passes, SUITE, mpi.openmpi_command, EXCLUDED, folders), seconds=600, daily=False,
               built={"MPICH's test/mpi for OpenMPI": SUITE})


def row_of_mpich(name, *folders):
    command = functools.partial(mpi.mpich_command, way=mpi.ALL_BY_UCX)
    return Row(f'{SUITE_MPICH} {name}', mpi.MPICH, functools.partial(passes, SUITE_MPICH, command, EXCLUDED_OF_MPICH, folders), seconds=900, daily=False,
               built={"MPICH's test/mpi for MPICH": SUITE_MPICH})


OTHERS = ('attr', 'datatype', 'errhan', 'group', 'init', 'topo')
ROWS = [
    row('pt2pt', 'pt2pt'),
    row('coll', 'coll'),
    row('comm', 'comm'),
    row('others', *OTHERS),
    row_of_mpich('pt2pt', 'pt2pt'),
    row_of_mpich('coll', 'coll'),
    row_of_mpich('comm', 'comm'),
    row_of_mpich('rma', 'rma'),
    row_of_mpich('others', *OTHERS),
]
