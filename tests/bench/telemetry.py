#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What it costs to be looked at: the rate of 8-byte WRITEs between two hosts of uroce-test while somebody looks and while nobody does, in turn.

  tests/bench/telemetry.py [--rounds N] [--seconds S] [--check]
  tests/bench/telemetry.py --instructions

A round is a process: hosts and workload run on its last CPU, its main thread, telemetry and who asks on the first. Its windows follow each
other:

  nothing, telemetry, nothing, view, nothing, nothing, captured

  telemetry  a client asks once a second for the engine, the port, the sessions and each QP
  view       `show top interval 0.5`
  captured   a capture that ran has been stopped; before it there was none
  nothing    the last of them is compared with the one before: how good all this is

A window is compared with the mean of those of nothing before and behind it, the last two with the one before. Printed are the medians of the
rounds' ratios, and between which values the middle half of them is. Rates are messages per second of processor time of the thread that
hosts and workload run on, so that what else runs on its CPU counts little; those by the clock are printed, too. --check: status 1 if a
ratio's median is below 0.99.

--instructions counts, without noise though slowly, what the possibility of a capture costs while there is none: of the instructions that
engines execute for WRITEs of 8 bytes (uroce-perf under valgrind), those that ask whether somebody captures.
"""

import argparse
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
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
ASK_SECONDS = 1
WINDOWS = ('nothing', 'telemetry', 'nothing', 'view', 'nothing', 'nothing', 'captured')
TEXTS = {'nothing': 'nothing, against itself', 'telemetry': 'telemetry, once a second', 'view': 'live view, twice a second',
         'captured': 'capture off, after one'}
AT_LEAST = 0.99             # --check


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

    def poll(self, stop):
        qps = ask({}, self.host, '/uroce/qp')['numbers']
        while not stop.wait(ASK_SECONDS):
            for command in ('/uroce/engine,0', '/uroce/port,uroce0', '/uroce/session', *(f'/uroce/qp,{n}' for n in qps)):
                ask({}, self.host, command)

    def window(self, kind, seconds):
        """Messages per second of the thread, and by the clock."""
        if kind == 'captured':
            path = os.path.join(self.folder, 'capture.pcapng')
            self.dialogue.ask(f'capture start {path} snap 64')
            time.sleep(VIEW_SECONDS)
            said = self.dialogue.ask('capture stop')
            if ' packets' not in said:
                raise SystemExit(f'the capture did not run: {said}')
            os.unlink(path)
            time.sleep(VIEW_SECONDS)
        stop, asking = threading.Event(), None
        before = self.sample()
        if kind == 'telemetry':
            asking = threading.Thread(target=self.poll, args=[stop])
            asking.start()
        if kind == 'view':
            self.dialogue.ask(f'show top interval {VIEW_SECONDS} count {max(1, round(seconds / VIEW_SECONDS))}')
        else:
            time.sleep(seconds)
        after = self.sample()
        if asking is not None:
            stop.set()
            asking.join()
        ops = after[0] - before[0]
        return ops / (after[2] - before[2]), ops / (after[1] - before[1])


def ratios(rates):
    """{kind: rate by those of nothing beside it}"""
    found = {}
    for i, kind in enumerate(WINDOWS):
        if kind in ('telemetry', 'view'):
            found[kind] = rates[i] / statistics.mean((rates[i - 1], rates[i + 1]))
    found['nothing'] = rates[5] / rates[4]
    found['captured'] = rates[6] / rates[5]
    return found


def measure(options):
    rounds = []
    for number in range(options.rounds):
        folder = tempfile.mkdtemp(prefix='uroce-watched-')
        try:
            one = Round(folder)
            try:
                rounds.append([one.window(kind, options.seconds) for kind in WINDOWS])
            finally:
                one.end()
        finally:
            shutil.rmtree(folder)
        print(f'\r{number + 1} of {options.rounds}', end='', file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return rounds


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
    parser.add_argument('--rounds', type=int, default=12)
    parser.add_argument('--seconds', type=float, default=3.0, help='of a window')
    parser.add_argument('--check', action='store_true', help=f'status 1 if a ratio is below {AT_LEAST}')
    parser.add_argument('--instructions', action='store_true', help='count instead of measuring')
    options = parser.parse_args()
    if options.instructions:
        return count_instructions()
    rounds = measure(options)
    nothing = [windows[i] for windows in rounds for i, kind in enumerate(WINDOWS) if kind == 'nothing']
    print(f'nothing: {statistics.median(r for r, _ in nothing):.0f} messages a second of processor time, '
          f'{statistics.median(r for _, r in nothing):.0f} by the clock; {len(rounds)} rounds, windows of {options.seconds} s')
    bad = False
    for kind, text in TEXTS.items():
        line = f'{text:28}'
        for column, by in enumerate(('processor time', 'clock')):
            all_of = sorted(ratios([window[column] for window in windows])[kind] for windows in rounds)
            middle = statistics.median(all_of)
            line += f'  {by}: {middle:.4f} ({all_of[len(all_of) // 4]:.4f} to {all_of[-1 - len(all_of) // 4]:.4f})'
            bad |= column == 0 and middle < AT_LEAST
        print(line)
    return 1 if options.check and bad else 0


if __name__ == '__main__':
    sys.exit(main())
