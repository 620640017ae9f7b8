#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What it costs to be looked at: the rate of 8-byte WRITEs between two hosts of uroce-test while somebody looks and while nobody does.

  tests/bench/telemetry.py [--rounds N] [--pairs N] [--seconds S] [--seed N] [--check]
  tests/bench/telemetry.py --instructions

A round is a process: hosts and workload run on its last CPU, its main thread, telemetry and who asks on the first. Its windows come in pairs
of neighbours, one with somebody who looks and one with nobody, in an order that is drawn; so neither place nor drift favours one:

  telemetry  a client asks once for the engine, the port, the sessions and each QP, in a window of half a second: twice a second
  view       `show top interval 0.5`
  nothing    nobody in either: how good all this is

Printed are, of the ratios of all pairs, the median and between which values it is with a certainty of 95 % (its order statistics). Rates are
messages per second of processor time of the thread that hosts and workload run on, so that what else runs on its CPU counts little; those
by the clock are printed, too. --check: status 1 if a median is below 0.99, 2 if these pairs are too few to say so.

--instructions counts, without noise though slowly, what the possibility of a capture costs while there is none: of the instructions that
engines execute for WRITEs of 8 bytes (uroce-perf under valgrind), those that ask whether somebody captures.
"""

import argparse
import glob
import json
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts'),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../verbs')]

from test_uroce_test import Dialogue  # noqa: E402
from uroce_lab import daemon  # noqa: E402
from uroce_lab.telemetry import ask  # noqa: E402

WORKLOAD = 'start write size 8 depth 64 qps 4'
WARM_UP_SECONDS = 2
VIEW_SECONDS = 0.5
TEXTS = {'nothing': 'nothing, against itself', 'telemetry': 'telemetry, twice a second', 'view': 'live view, twice a second'}
AT_LEAST = 0.99             # --check
CERTAINTY = 1.96            # standard deviations: 95 %


class Round:
    """A uroce-test with traffic."""

    def __init__(self, folder):
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            raise SystemExit('give this two CPUs: one for the traffic, one for who looks')
        self.folder = folder
        self.host = {'name': 'h1', 'dir': folder, 'telemetry': os.path.join(folder, 'dpdk/watched/dpdk_telemetry.v2')}
        os.environ['RUNTIME_DIRECTORY'] = os.environ['XDG_RUNTIME_DIR'] = folder
        self.dialogue = Dialogue(eal=(f'--lcores=0@{cpus[0]},1@{cpus[-1]}', '--no-pci', '--no-huge', '-m', '512',
                                      '--file-prefix=watched', '--log-level=error'))
        self.dialogue.ask(WORKLOAD)
        self.thread = self.worker()
        self.qps = ask({}, self.host, '/uroce/qp')['numbers']
        time.sleep(WARM_UP_SECONDS)

    def end(self):
        self.dialogue.ask('stop all')
        self.dialogue.end()

    def worker(self):
        for comm in glob.glob(f'/proc/{self.dialogue.process.pid}/task/*/comm'):
            with open(comm, encoding='ascii') as f:
                if f.read().startswith('rte-worker'):
                    return os.path.dirname(comm)
        raise SystemExit('uroce-test has no worker lcore')

    def sample(self):
        """Messages, seconds by the workload's clock, seconds of its thread."""
        row = json.loads(self.dialogue.ask('show workload json'))[0]
        with open(f'{self.thread}/schedstat', encoding='ascii') as f:
            ran = int(f.read().split()[0]) / 1e9
        # "seconds" has two digits behind the point; the rate has more.
        return row['ops'], row['ops'] / row['ops/s'], ran

    def look(self):
        for command in ('/uroce/engine,0', '/uroce/port,uroce0', '/uroce/session', *(f'/uroce/qp,{n}' for n in self.qps)):
            ask({}, self.host, command)

    def window(self, kind, seconds):
        """Messages per second of the thread, and by the clock."""
        before = self.sample()
        end = time.monotonic() + seconds
        if kind == 'telemetry':
            time.sleep(seconds / 2)
            self.look()
        if kind == 'view':
            self.dialogue.ask(f'show top interval {VIEW_SECONDS} count {max(1, round(seconds / VIEW_SECONDS))}')
        time.sleep(max(0, end - time.monotonic()))
        after = self.sample()
        ops = after[0] - before[0]
        return ops / (after[2] - before[2]), ops / (after[1] - before[1])

    def pair(self, kind, seconds, draw):
        """With somebody who looks by with nobody."""
        order = ['nobody', 'nobody' if kind == 'nothing' else kind]
        swapped = draw.random() < 0.5
        if swapped:
            order.reverse()
        rates = [self.window(who, seconds) for who in order]
        if swapped:
            rates.reverse()
        return tuple(looked / alone for alone, looked in zip(*rates)), rates[0]


def measure(options):
    """{kind: ratios of pairs}, rates with nobody"""
    draw = random.Random(options.seed)
    ratios, alone = {kind: [] for kind in TEXTS}, []
    for number in range(options.rounds):
        folder = tempfile.mkdtemp(prefix='uroce-watched-')
        try:
            one = Round(folder)
            try:
                for _ in range(options.pairs):
                    for kind in draw.sample(list(TEXTS), len(TEXTS)):
                        ratio, rate = one.pair(kind, options.seconds, draw)
                        ratios[kind].append(ratio)
                        alone.append(rate)
            finally:
                one.end()
        finally:
            shutil.rmtree(folder)
        print(f'\r{number + 1} of {options.rounds}', end='', file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return ratios, alone


def median_between(values):
    """The median, and between which of the values it is with that certainty."""
    values = sorted(values)
    off = math.ceil(CERTAINTY * math.sqrt(len(values)) / 2)
    middle = len(values) // 2
    return statistics.median(values), values[max(0, middle - off)], values[min(len(values) - 1, middle + off)]


def count_instructions():
    """Both hosts in one loop, so that every turn has work."""
    program = os.path.join(daemon.build_dir(), 'app/uroce-perf/uroce-perf')
    with tempfile.TemporaryDirectory(prefix='uroce-watched-') as folder:
        counts = os.path.join(folder, 'counts')
        subprocess.run(['valgrind', '--quiet', '--tool=callgrind', '--toggle-collect=engine_turn', f'--callgrind-out-file={counts}', program,
                        f'--lcores=0@{min(os.sched_getaffinity(0))}', '--no-huge', '-m', '384', '--no-pci', '--no-shconf',
                        '--log-level=error', '--', '--one-core', '--op', 'write', '--seconds', '4'],
                       stdout=subprocess.DEVNULL, check=True)
        lines = subprocess.run(['callgrind_annotate', '--auto=yes', '--threshold=100', counts], stdout=subprocess.PIPE,
                               text=True, check=True).stdout.splitlines()
    number = {True: 0, False: 0}
    for line in lines:
        found = re.match(r' *([0-9,]+) \([ 0-9.]+%\) +(.*)', line)
        if found and ('PROGRAM TOTALS' in line or '(e->tap != NULL' in line):
            number['PROGRAM TOTALS' in line] += int(found[1].replace(',', ''))
    if not number[True] or not number[False]:
        raise SystemExit('callgrind_annotate shows no lines of lib/engine/io.c: is the build without debugging information?')
    print(f'{number[False]} of {number[True]} instructions of engines: {number[False] / number[True]:.5%}')
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--rounds', type=int, default=6)
    parser.add_argument('--pairs', type=int, default=40, help='of each kind in a round')
    parser.add_argument('--seconds', type=float, default=0.5, help='of a window')
    parser.add_argument('--seed', type=int, default=1, help='of what is drawn')
    parser.add_argument('--check', action='store_true', help=f'status 1 if a ratio is below {AT_LEAST}, 2 if it may be')
    parser.add_argument('--instructions', action='store_true', help='count instead of measuring')
    options = parser.parse_args()
    if options.instructions:
        return count_instructions()
    ratios, alone = measure(options)
    print(f'nobody: {statistics.median(r for r, _ in alone):.0f} messages a second of processor time, '
          f'{statistics.median(r for _, r in alone):.0f} by the clock; {options.rounds} rounds, {options.pairs} pairs of each kind, '
          f'windows of {options.seconds} s')
    status = 0
    for kind, text in TEXTS.items():
        line = f'{text:28}'
        for column, by in enumerate(('processor time', 'clock')):
            middle, low, high = median_between([ratio[column] for ratio in ratios[kind]])
            line += f'  {by}: {middle:.4f} ({low:.4f} to {high:.4f})'
            if column == 0 and kind != 'nothing' and low < AT_LEAST:
                status = 1 if middle < AT_LEAST or status == 1 else 2
        print(line)
    return status if options.check else 0


if __name__ == '__main__':
    sys.exit(main())
