#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Where the cycles of a message go: the tables of docs/benchmarks.md.

  tests/bench/profile.py [--seconds S]

uroce-perf runs both hosts in one loop on one core (--one-core), so that a profile shows work and no waiting. Each row of the first table is
a run by itself; the shares are samples of `perf record`, put together by the source file that a function is of, as nm knows it.
"""

import argparse
import collections
import glob
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts'))

from uroce_lab import daemon  # noqa: E402

MESSAGES = (('write', 8), ('send', 8), ('read', 8), ('fetch_add', 8), ('write', 65536), ('read', 65536))
PROFILED = [message for message in MESSAGES if message[0] != 'fetch_add']
LOST_SHARE = 0.5            # per cent; smaller shares are not printed

# The first pattern that matches counts: it is matched with the object file of the function, or with the shared object.
PARTS = (
    ('memif driver', r'librte_net_memif'),
    ("copying payload (memcpy, some of it memif's)", r'libc\.so|mem/.*copy'),
    ('ICRC', r'libisal|wire/.*icrc'),
    ('requester: WQE checks, headers', r'transport/.*(requester|window|local|selective_tx)\.c'),
    ('responder', r'transport/.*(responder|reply|read_atomic|recv|srq)\.c|lib/mem/'),
    ('parsing, finding the QP', r'lib/wire/|transport/.*(transport|qp_table)\.c'),
    ('mbufs', r'librte_(mempool|mbuf|ring)'),
    ('completer, completions', r'transport/.*(completer|cq)\.c'),
    ('engine loop', r'lib/engine/|lib/net/|wheel\.c|librte_'),
    ('workload: posting, polling', r'app/uroce-perf'),
)


def objects(build):
    """@return {function: object file} for functions that only one file defines"""
    found = collections.defaultdict(set)
    for path in glob.glob(f'{build}/lib/*/*.a.p/*.o') + glob.glob(f'{build}/lib/*/*.p/*.o') + \
            glob.glob(f'{build}/app/uroce-perf/*.p/*.o'):
        name = os.path.relpath(path, build)
        for line in subprocess.run(['nm', '--defined-only', path], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
            _, kind, function = line.split()
            if kind in 'tT':
                found[function].add(name)
    return {function: next(iter(files)) for function, files in found.items() if len(files) == 1}


def command(op, size, seconds):
    return [os.path.join(daemon.build_dir(), 'app/uroce-perf/uroce-perf'), f'--lcores=0@{min(os.sched_getaffinity(0))}', '--no-huge', '-m', '384',
            '--no-pci', '--no-shconf', '--log-level=error', '--', '--one-core', '--op', op, '--size', str(size),
            '--seconds', str(seconds)]


def cycles(op, size, seconds):
    said = subprocess.run([*command(op, size, seconds), '--brief'], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r'cycles\S*=([0-9.]+)', said)[1]


def shares(op, size, seconds, files, folder):
    data = os.path.join(folder, 'perf.data')
    subprocess.run(['perf', 'record', '-q', '-F', '4000', '-e', 'cpu-clock:u', '-o', data, *command(op, size, seconds)],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    text = subprocess.run(['perf', 'report', '-i', data, '--stdio', '--sort', 'dso,sym', '-t', '|'], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=True).stdout
    found = collections.Counter()
    for line in text.splitlines():
        row = re.match(r' *([0-9.]+)%? *\| *(\S+) *\| *\[.\] (\S+)', line)
        if row is None:
            continue
        where = files.get(row[3].partition('.')[0], row[2]) if row[2] == 'uroce-perf' else row[2]
        part = next((name for name, pattern in PARTS if re.search(pattern, where)), 'other')
        found[part] += float(row[1])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seconds', type=int, default=4, help='of a run')
    options = parser.parse_args()
    print('| message | cycles, both hosts |\n|---|---|')
    for op, size in MESSAGES:
        print(f'| {op} {size} B | {cycles(op, size, options.seconds)} |', flush=True)
    files = objects(daemon.build_dir())
    with tempfile.TemporaryDirectory(prefix='uroce-profile-') as folder:
        columns = [shares(op, size, options.seconds, files, folder) for op, size in PROFILED]
    print('\n| share of the time |', ' | '.join(f'{op} {size} B' for op, size in PROFILED), '|')
    print('|---' * (len(PROFILED) + 1) + '|')
    for part in [name for name, _ in PARTS] + ['other']:
        cells = [f'{column[part]:.0f} %' if column[part] >= LOST_SHARE else '' for column in columns]
        if any(cells):
            print(f'| {part} |', ' | '.join(cells), '|')


if __name__ == '__main__':
    main()
