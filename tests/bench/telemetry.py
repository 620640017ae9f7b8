#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What it costs to be looked at: messages per second of ib_write_bw on a lab, in windows with and without questions, in turn.

  tests/bench/telemetry.py [--windows N] [--seconds S] [--every MS]

In a window with questions /uroce/engine,0, /uroce/port,uroce0, /uroce/qp and /uroce/qp,N are asked of the sender's daemon every so
often. The ratio of the medians is printed. On a busy machine windows differ by more than
questions cost: give more windows.
"""

import argparse
import os
import statistics
import sys
import time

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts'),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../verbs')]

from labs import lab_up  # noqa: E402
from uroce_lab import pairs  # noqa: E402
from uroce_lab.telemetry import ask  # noqa: E402

NAME = f'b{os.getpid()}'
START_SECONDS = 30


def measure(lab, host, options):
    def tell(command):
        return ask(lab.data, lab.hosts[host], command)

    def sent():
        return tell(f'/uroce/qp,{qpn}')['requester']['psn_next'], time.monotonic()

    def ran():
        """Seconds of processor time of the daemon, threads that have ended included."""
        with open(f'/proc/{lab.pid(host)}/stat', encoding='ascii') as f:
            return sum(map(int, f.read().rpartition(')')[2].split()[11:13])) / os.sysconf('SC_CLK_TCK')

    qpn = tell('/uroce/qp')['numbers'][0]
    rates, spent = {False: [], True: []}, {False: [], True: []}
    asked = 0
    for window in range(2 * options.windows):
        questions = window % 2 == 1
        (before, start), ran_before = sent(), ran()
        while (left := start + options.seconds - time.monotonic()) > 0:
            if not questions:
                time.sleep(left)
                continue
            for command in ('/uroce/engine,0', '/uroce/port,uroce0', '/uroce/qp', f'/uroce/qp,{qpn}'):
                tell(command)
                asked += 1
            time.sleep(max(0.0, min(options.every / 1000, start + options.seconds - time.monotonic())))
        (after, end), ran_after = sent(), ran()
        rates[questions].append(((after - before) & 0xffffff) / (end - start))
        spent[questions].append(((after - before) & 0xffffff, ran_after - ran_before))
    return rates, spent, asked


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--windows', type=int, default=20, help='of each kind')
    parser.add_argument('--seconds', type=float, default=1.0, help='of a window')
    parser.add_argument('--every', type=float, default=100, help='ms between two rounds of questions')
    options = parser.parse_args()
    with lab_up(name=NAME) as lab:
        gid, port = str(lab.gid_index('h1', 4)), lab.tcp_port()
        program = ['ib_write_bw', '-d', pairs.DEVICE, '-x', gid, '-s', '64', '--run_infinitely']
        sides = [pairs.start_server(lab, program, port), pairs.start_client(lab, program, port)]
        try:
            end = time.monotonic() + START_SECONDS
            while ask(lab.data, lab.hosts['h2'], '/uroce/qp,state=RTS')['all'] == 0 and time.monotonic() < end:
                time.sleep(0.1)
            time.sleep(1)
            rates, spent, asked = measure(lab, 'h2', options)
        finally:
            for side in sides:
                side.kill()
    print(f'{options.windows} windows of {options.seconds} s each, {asked} questions')
    without, asking = (statistics.median(rates[kind]) for kind in (False, True))
    print(f'messages per second (medians): {without:.0f} without questions, {asking:.0f} with, ratio {asking / without:.4f}')
    without, asking = (sum(m for m, _ in spent[kind]) / sum(s for _, s in spent[kind]) for kind in (False, True))
    print(f"messages per second of the daemon's processor time: {without:.0f} without questions, {asking:.0f} with, "
          f'ratio {asking / without:.4f}')


if __name__ == '__main__':
    main()
