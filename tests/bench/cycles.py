#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""How many cycles an operation takes in two builds that share one CPU, time slice by time slice.

  tests/bench/cycles.py [--rounds N] [--seconds S] [--op OP]... [--size BYTES] [--qps N] [--depth N] [--journal] [--cpu N]
                        [BUILD] [OTHER-BUILD]

On a virtual machine the neighbours make one run twice as fast as the next. Here both programs, and the first one once more as a control, run at the
same time, so that the scheduler gives each a few milliseconds in turn, and what slows one down slows down all. Each is `uroce-perf --one-core`, which divides
its own CPU time by its operations. The ratio is of rates: more than 1 if the second build is the faster one. It is the median of the rounds, with quartiles. A process's memory
lies where it happens to, which makes two runs of one build a percent or two different: the control shows that, and only more rounds help.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts'))

from instructions import OPS  # noqa: E402
from uroce_lab import daemon  # noqa: E402

STARTS = 60                 # s in which all of them have begun


def start(program, cpu, more):
    return subprocess.Popen([program, '--lcores', f'0@{cpu}', '--no-huge', '-m', '384', '--no-pci', '--no-shconf', '--no-telemetry', '--log-level=error', '--',
                             *more, '--brief', '--one-core'],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def cycles(program, child, timeout):
    out, err = child.communicate(timeout=timeout)
    said = re.search(r'\bcycles_initiator=(\d+) .*\bassertions=(\w+)', out)
    if child.returncode != 0 or said is None:
        sys.exit(f'cycles: {program}: exit status {child.returncode}: {(err + out).strip()}')
    if said[2] != 'off':
        sys.exit(f'cycles: {program} checks assertions, which costs cycles: build it with -Dassertions=false')
    if int(said[1]) == 0:
        sys.exit(f'cycles: {program} says that an operation takes no cycles')
    return int(said[1])


def measure(programs, cpu, more, seconds, backwards):
    """@return the cycles of each, of one round"""
    order = range(len(programs))
    children = {}
    try:
        for i in reversed(order) if backwards else order:
            children[i] = start(programs[i], cpu, more[i])
        return [cycles(programs[i], children[i], STARTS + len(programs) * seconds) for i in order]
    except subprocess.TimeoutExpired as e:
        sys.exit(f'cycles: {e.cmd[0]} has not ended after {e.timeout:.0f} s')
    finally:
        for child in children.values():
            child.kill()
            child.wait()


def ratios(base, other):
    """@return median and quartiles of the rounds' ratios, as text"""
    each = sorted(a / b for a, b in zip(base, other))
    return f'{statistics.median(each):.3f} ({each[len(each) // 4]:.3f} to {each[-1 - len(each) // 4]:.3f})'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('builds', nargs='*', metavar='BUILD', help='build folders, at most two (default: build, or UROCE_BUILD)')
    parser.add_argument('--rounds', type=int, default=10, help='(%(default)s)')
    parser.add_argument('--seconds', type=float, default=3, metavar='S', help='each round measures for so long (%(default)s)')
    parser.add_argument('--op', action='append', choices=OPS, help='only this operation (may be given again)')
    parser.add_argument('--size', type=int, default=8, metavar='BYTES', help='of a message (%(default)s)')
    parser.add_argument('--qps', type=int, default=1, metavar='N', help='QPs (%(default)s)')
    parser.add_argument('--depth', type=int, default=128, metavar='N', help='operations under way on each (%(default)s)')
    parser.add_argument('--journal', action='store_true', help='the second build, or the only one once more, with uroce-perf --journal')
    parser.add_argument('--cpu', type=int, default=max(os.sched_getaffinity(0)), metavar='N', help='on which they run (%(default)s)')
    options = parser.parse_args()
    if len(options.builds) > 2 or options.rounds < 1 or options.seconds <= 0:
        parser.error('one or two build folders, at least one round, more than 0 seconds')
    programs = [os.path.join(build, 'app/uroce-perf/uroce-perf') for build in options.builds or [daemon.build_dir()]]
    for program in programs:
        if not os.access(program, os.X_OK):
            sys.exit(f'cycles: there is no program {program}: name a build folder in which uroce-perf has been built')
    if options.cpu not in os.sched_getaffinity(0):
        parser.error(f'CPU {options.cpu} is none of those that may be used: {", ".join(map(str, sorted(os.sched_getaffinity(0))))}')
    if len(programs) == 1 and options.journal:
        programs *= 2
    # The control is the first build once more.
    programs.insert(0, programs[0])
    print(f'{"cycles, both hosts":22}', *(f'{name:>12}' for name in ('first', 'again', 'second')[:len(programs)]), f' {"again : first":24}',
          'second : first' if len(programs) == 3 else '')
    for op in options.op or OPS:
        common = ['--op', op, '--size', str(options.size), '--qps', str(options.qps), '--depth', str(options.depth), '--seconds', str(options.seconds)]
        more = [common, common, [*common, *(['--journal'] if options.journal else [])]][:len(programs)]
        rounds = [measure(programs, options.cpu, more, options.seconds, n % 2 == 1) for n in range(options.rounds)]
        seen = list(zip(*rounds))
        print(f'{op + f" {options.size} B":22}', *(f'{statistics.median(values):12.0f}' for values in seen),
              *(f' {ratios(seen[0], values):24}' for values in seen[1:]), flush=True)


if __name__ == '__main__':
    main()
