#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What runs in the arm64 machine of lab_machine.py, as root: perftest and verify between two hosts of a lab, or unit tests.

  lab_inside.py BUILD

It prints a line of JSON for each program or test. BUILD/machine-tests.json lists the tests: name, command, environment, seconds. Without any the lab runs.
"""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, '../../scripts')]

from uroce_lab import LabError, pairs  # noqa: E402

# A daemon for both hosts, then one for each: that wire is memory which two processes share.
ARRANGEMENTS = {'one daemon': '--one-process', 'two daemons': '--no-one-process'}
PROGRAMS = ('ib_write_bw -n 500', 'ib_read_bw -n 500', 'ib_send_bw -n 500', 'ib_send_lat -n 500', 'ib_send_lat -e -n 500', 'ib_atomic_bw -n 500')
PROGRAM_SECONDS = 120
UP_SECONDS = 300            # on a busy machine; else twelve
TESTS = 'machine-tests.json'
TEST_LINES = 40             # of one that failed
LAB = 'arm64'
COMMAND = os.path.join(HERE, '../../scripts/uroce-lab')


def tell(**what):
    print(json.dumps(what), flush=True)


def lab(*args):
    done = subprocess.run([COMMAND, *args, '--name', LAB], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=UP_SECONDS, check=False)
    if done.returncode:
        raise LabError(f'uroce-lab {args[0]}: {done.stdout}')


def perftest(where, gid, program):
    """Run a pair of Debian's programs. @return what it measured."""
    name, *options = program.split()
    pair = pairs.run_pair(where, [name, '-F', '-d', pairs.DEVICE, '-x', gid, *options], PROGRAM_SECONDS)
    if not pair.ok:
        raise LabError(pair.report() + where.logs())
    return pairs.result(name, pair.client.text())[2]


def verify(where, gid):
    """Whether every byte is right. @return what it says of that"""
    pair = pairs.run_pair(where, [os.path.join(os.environ['UROCE_BUILD'], 'tests/verbs/verify'), '-x', gid], PROGRAM_SECONDS)
    for side in (pair.server, pair.client):
        if not pair.ok or 'were right' not in side.text():
            raise LabError(pair.report() + where.logs())
    return pair.client.text().strip().splitlines()[-1]


def arrangement(name, option):
    said = {'arrangement': name}
    try:
        lab('up', option)
        where = pairs.Lab(LAB)
        gid = str(where.gid_index('h1', 4))
        for program in PROGRAMS:
            tell(**said, program=program, result=perftest(where, gid, program))
        tell(**said, program='verify', result=verify(where, gid))
        lab('down')
    except (LabError, subprocess.TimeoutExpired) as e:
        tell(**said, error=str(e))
        # There may be none: `up` has taken down what it could not raise.
        subprocess.run([COMMAND, 'down', '--name', LAB], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=UP_SECONDS, check=False)


def unit_test(build, name, command, environment, seconds):
    try:
        done = subprocess.run(command, cwd=build, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=seconds, check=False)
        ended, said = f'status {done.returncode}' if done.returncode else None, done.stdout
    except subprocess.TimeoutExpired as e:
        ended, said = f'no end after {seconds} s', e.stdout or b''
    lines = said.decode(errors='replace').splitlines()[-TEST_LINES:] if ended else []
    tell(test=name, failed=ended, said=lines)


def main():
    build = os.environ['UROCE_BUILD'] = sys.argv[1]
    tell(processor=os.uname().machine, kernel=os.uname().release)
    with open(os.path.join(build, TESTS), encoding='utf-8') as f:
        tests = json.load(f)
    for test in tests:
        unit_test(build, *test)
    for name, option in ({} if tests else ARRANGEMENTS).items():
        arrangement(name, option)
    tell(ended=True)


if __name__ == '__main__':
    main()
