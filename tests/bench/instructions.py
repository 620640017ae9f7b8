#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""How many instructions an operation takes: unlike cycles, a number that a busy machine does not change.

  tests/bench/instructions.py [--operations N] [--rounds N] [--op OP]... [--qps N] [--depth N] [--journal]
                               [BUILD] [OTHER-BUILD]

uroce-perf moves messages of 8 bytes between two hosts in one loop on one core (--one-core), so the count has both hosts, the memif driver
between them and the workload. valgrind's callgrind counts what that loop executes. Two runs, of N and of 2 N operations, are subtracted, so
that what is done once per run does not count. With two build folders the second is compared with the first, as a ratio.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts'))

from uroce_lab import daemon  # noqa: E402

OPS = ('write', 'send', 'read', 'fetch_add')
SIZE = 8
LOOP = 'lane_run'           # of uroce-perf: engines and workload take turns in it
BY_CLOCK = 'transport_save' # what a journal does every 10 ms doesn't count: for valgrind's program time passes a hundred times as fast


def count(program, op, operations, folder, more):
    """@return (operations, instructions) of one run"""
    counts = os.path.join(folder, 'counts')
    run = subprocess.run(['valgrind', '--quiet', '--tool=callgrind', f'--toggle-collect={LOOP}', f'--toggle-collect={BY_CLOCK}', f'--callgrind-out-file={counts}', program,
                          f'--lcores=0@{min(os.sched_getaffinity(0))}', '--no-huge', '-m', '384', '--no-pci', '--no-shconf',
                          '--no-telemetry', '--log-level=error', f'--file-prefix=instructions-{os.getpid()}', '--',
                          *more, '--brief', '--one-core', '--op', op, '--size', str(SIZE), '--operations', str(operations)],
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    said = re.search(r'\bops=(\d+) .*\bassertions=(\w+)', run.stdout)
    if run.returncode != 0 or said is None:
        sys.exit(f'instructions: {program}: exit status {run.returncode}: {(run.stderr + run.stdout).strip()}')
    if said[2] != 'off':
        sys.exit(f'instructions: {program} checks assertions, which costs instructions: build it with -Dassertions=false')
    with open(counts, encoding='utf-8') as f:
        total = re.search(r'^(?:totals|summary): (\d+)', f.read(), re.MULTILINE)
    if total is None or int(total[1]) == 0:
        sys.exit(f'instructions: callgrind counted nothing in {LOOP}() of {program}')
    return int(said[1]), int(total[1])


def per_operation(program, op, operations, folder, more):
    short, long = (count(program, op, operations * times, folder, more) for times in (1, 2))
    return (long[1] - short[1]) / (long[0] - short[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('builds', nargs='*', metavar='BUILD', help='build folders, at most two (default: build, or UROCE_BUILD)')
    parser.add_argument('--operations', type=int, default=20000, metavar='N', help='of the shorter run (%(default)s)')
    parser.add_argument('--rounds', type=int, default=3, help='how often, the builds in turn; the median counts (%(default)s)')
    parser.add_argument('--journal', action='store_true', help='the second build, or the only one once more, with uroce-perf --journal')
    parser.add_argument('--op', action='append', choices=OPS, help='only this operation (may be given again)')
    parser.add_argument('--qps', type=int, default=1, metavar='N', help='QPs (%(default)s)')
    parser.add_argument('--depth', type=int, default=128, metavar='N', help='operations under way on each (%(default)s)')
    options = parser.parse_args()
    if len(options.builds) > 2 or options.rounds < 1 or options.operations < 1000:
        parser.error('one or two build folders, at least one round, at least 1000 operations')
    programs = [os.path.join(build, 'app/uroce-perf/uroce-perf') for build in options.builds or [daemon.build_dir()]]
    queues = ['--qps', str(options.qps), '--depth', str(options.depth)]
    more = [queues] * len(programs)
    if options.journal:
        programs = [programs[0], programs[-1]]
        more = [queues, [*queues, '--journal']]
    print(f'{"instructions, both hosts":26}', *(f'{build:>24}' for build in options.builds or ['']), 'ratio' if len(programs) == 2 else '')
    for op in options.op or OPS:
        seen = [[] for _ in programs]
        with tempfile.TemporaryDirectory(prefix='uroce-instructions-') as folder:
            for _ in range(options.rounds):
                for i, program in enumerate(programs):
                    seen[i].append(per_operation(program, op, options.operations, folder, more[i]))
        medians = [statistics.median(values) for values in seen]
        print(f'{op + f" {SIZE} B":26}', *(f'{m:11.1f} ({max(v) - min(v):4.1f} apart)' for m, v in zip(medians, seen)),
              f'{medians[1] / medians[0]:.4f}' if len(medians) == 2 else '', flush=True)


if __name__ == '__main__':
    main()
