# SPDX-License-Identifier: BSD-3-Clause
"""What scripts/bench measures for its report: figures that depend on something, each as a list of points.

Each function takes what runs uroce-perf and gives back its rows, and has the name by which bench's --only chooses it.
"""

import os
import re
import subprocess

from . import LabError, pairs

SIZES = (8, 64, 512, 4096, 32768, 262144)
LARGE = 4096                # from here on fewer messages are under way
QPS = (1, 4, 16, 64, 256)
ENGINES = (1, 2, 4, 8, 16)
OPERATIONS = ('write', 'send', 'read')
MESSAGES = 5000             # of each program whose latencies are looked at one by one
PROGRAMS = {'ib_write_lat': ('ib_write_lat',), 'ib_send_lat': ('ib_send_lat',), 'ib_send_lat -e': ('ib_send_lat', '-e')}
QUANTILES = 200
PROGRAM_SECONDS = 60
SAMPLE = re.compile(r'^\s*\d+, ([\d.]+)$', re.M)
LOSS_ROW = re.compile(r'^\| ([\d.e-]+) \| ([a-zA-Z -]+) \| ([\d.]+) \|', re.M)


def by_size(perf, _):
    """Rate and bandwidth of messages of each size."""
    points = []
    for op in OPERATIONS:
        for size in SIZES:
            words = ['--role', 'pair', '--op', op, '--size', str(size), '--mtu', '4096']
            if size >= LARGE:
                words += ['--memory', '64M', '--depth', '32']
            values = perf(*words)
            points.append({'op': op, 'size': size, 'ops_per_s': values['ops_per_s'], 'GB_per_s': values['GB_per_s']})
    return points


def by_qps(perf, _):
    """Rate of 8-byte WRITEs of one core, with that many QPs."""
    return [{'qps': qps, 'ops_per_s': perf('--role', 'pair', '--op', 'write', '--qps', str(qps))['ops_per_s']} for qps in QPS]


def by_engines(perf, _):
    """The same with that many engines for each host, each on a core of its own."""
    possible = [n for n in ENGINES if 2 * n <= len(os.sched_getaffinity(0))]
    if not possible:
        raise LabError('two engines need two CPUs')
    points = []
    for n in possible:
        cpus = ','.join(map(str, sorted(os.sched_getaffinity(0))[:2 * n]))
        eal = ('-l', cpus, '--no-pci', '--no-huge', '-m', str(512 * (n + 1)), '--no-shconf', '--no-telemetry', '--file-prefix', f'uroce-bench-{os.getpid()}-e')
        values = perf('--role', 'pair', '--op', 'write', '--engines', str(n), '--qps', '4', eal=eal)
        points.append({'engines': n, 'ops_per_s': values['ops_per_s']})
    return points


def quantiles(samples):
    """@return the values below which 0/200, 1/200 ... of the samples are, and the last thousandth"""
    ordered = sorted(samples)
    last = len(ordered) - 1
    marks = [i / QUANTILES for i in range(QUANTILES)] + [0.999, 1.0]
    return [[mark, ordered[round(mark * last)]] for mark in marks]


def distribution(_, build):
    """The latency of each message of Debian's programs, between two hosts of a lab."""
    lab_program, name = os.path.join(pairs.places.SCRIPTS, 'uroce-lab'), f'sweep{os.getpid()}'
    env = {**os.environ, 'UROCE_BUILD': build}
    done = subprocess.run([lab_program, 'up', '--name', name], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, env=env)
    if done.returncode:
        raise LabError(done.stdout.strip())
    found = {}
    try:
        lab = pairs.Lab(name)
        for label, program in PROGRAMS.items():
            words = [program[0], '-d', pairs.DEVICE, '-x', str(lab.gid_index('h1', 4)), '-F', '-n', str(MESSAGES), '-U', *program[1:]]
            pair = pairs.run_pair(lab, words, PROGRAM_SECONDS)
            samples = [float(value) for value in SAMPLE.findall(pair.client.text())]
            if not pair.ok or not samples:
                raise LabError(f'{label}: no latencies; {(pair.client.text().strip().splitlines() or ["no message"])[-1]}')
            found[label] = quantiles(samples)
    finally:
        pairs.kill_sides()
        subprocess.run([lab_program, 'down', '--name', name], capture_output=True, check=False, env=env)
    return found


def by_loss(_, build):
    """Goodput by loss, from the two transports under a virtual clock (tests/bench/loss): the same on any machine."""
    program = os.path.join(build, 'tests/bench/loss')
    if not os.access(program, os.X_OK):
        raise LabError(f'{program} is not there: build it (meson configure -Dtests=enabled)')
    done = subprocess.run([program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=300)
    return loss_points(done.stdout)


def loss_points(text):
    """@return the rows of the tables that tests/bench/loss prints for WRITEs and READs"""
    points = []
    for part in re.split(r'(?m)^(?=WRITEs|READs)', text):
        op = part.split(' ', 1)[0]
        if op in ('WRITEs', 'READs'):
            part = part.partition('Round trips')[0]
            points += [{'op': op, 'loss': float(loss), 'recovery': recovery, 'Gb_per_s': float(rate)}
                       for loss, recovery, rate in LOSS_ROW.findall(part)]
    if not points:
        raise LabError('tests/bench/loss printed no table')
    return points


SWEEPS = {'by size': by_size, 'by QPs': by_qps, 'by engines': by_engines, 'latency distribution': distribution, 'by loss': by_loss}
