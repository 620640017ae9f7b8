#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What runs in the virtual machine: Debian's perftest between two hosts, as root and as an ordinary user, in three arrangements.

  inside.py BUILD [USER/ARRANGEMENT...]

It prints a line of JSON for each program, and before that one about sched_yield(). When it runs itself for one of these, the first argument says so.
"""

import ctypes
import json
import os
import signal
import statistics
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, '../../scripts')]

from uroce_lab import LabError, pairs  # noqa: E402

USERS = {'root': 0, 'user': 1000}
# An option of `uroce-lab up`, and whether sched_yield() does nothing.
ARRANGEMENTS = {'one': ('--one-process', False), 'no_yield': ('--one-process', True), 'two': ('--no-one-process', False)}
PROGRAMS = ('ib_send_lat -n 1000', 'ib_write_lat -n 1000', 'ib_send_lat -e -n 1000', 'ib_write_bw -n 1000')
PROGRAM_SECONDS = 60
UP_SECONDS = 120
YIELD_SECONDS = 1
AWAY_SECONDS = 0.0005        # a yield that takes longer has given the CPU to somebody
LAB = 'kernels'
COMMAND = os.path.join(HERE, '../../scripts/uroce-lab')
# linux/prctl.h, linux/seccomp.h, linux/filter.h
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
BPF_LOAD_NR, BPF_JUMP_EQ, BPF_RETURN = 0x20, 0x15, 0x06
SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW = 0x00050000, 0x7fff0000
NR_SCHED_YIELD = 24         # of x86-64


class SockFprog(ctypes.Structure):
    _fields_ = [('len', ctypes.c_ushort), ('filter', ctypes.c_char_p)]


def disable_yield():
    """From now on sched_yield() returns at once, in this process and in all that it starts."""
    filters = struct.pack('HBBI' * 4, BPF_LOAD_NR, 0, 0, 0, BPF_JUMP_EQ, 0, 1, NR_SCHED_YIELD, BPF_RETURN, 0, 0, SECCOMP_RET_ERRNO,
                          BPF_RETURN, 0, 0, SECCOMP_RET_ALLOW)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or \
            libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(SockFprog(4, filters)), 0, 0):
        raise OSError(ctypes.get_errno(), 'seccomp')


def tell(**what):
    print(json.dumps(what), flush=True)


def yields():
    """Yield a CPU to a thread that never yields. @return how often it was yielded, and for how long it was away when another one got it"""
    os.sched_setaffinity(0, {0})
    other = os.fork()
    if other == 0:
        end = time.monotonic() + 2 * YIELD_SECONDS
        while time.monotonic() < end:
            pass
        os._exit(0)
    away, count = [], 0
    now = begin = time.monotonic()
    while now - begin < YIELD_SECONDS:
        os.sched_yield()
        before, now = now, time.monotonic()
        count += 1
        if now - before > AWAY_SECONDS:
            away.append(now - before)
    os.kill(other, signal.SIGKILL)
    os.waitpid(other, 0)
    return {'yields': count, 'away': len(away), 'away_us': 1e6 * statistics.median(away) if away else 0}


def lab(*args):
    done = subprocess.run([COMMAND, *args, '--name', LAB], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=UP_SECONDS, check=False)
    if done.returncode:
        raise LabError(f'uroce-lab {args[0]}: {done.stdout}')


def measure(where, program):
    """Run one pair of programs in the lab."""
    words = program.split()
    gid = where.gid_index('h1', 4)
    pair = pairs.run_pair(where, [words[0], '-F', '-d', pairs.DEVICE, '-x', str(gid), *words[1:]], PROGRAM_SECONDS)
    rows = pairs.rows(pair.client.text())
    if not pair.ok or not rows:
        return {'error': pair.report() + where.logs(), 'late': pair.server.timed_out or pair.client.timed_out}
    if words[0].endswith('_bw'):
        return {'rate': float(rows[-1][3])}
    return {'typical': float(rows[-1][4]), 'p99': float(rows[-1][7])}


def arrangement(user, name):
    """Measure everything in one arrangement."""
    option, no_yield = ARRANGEMENTS[name]
    if no_yield:
        disable_yield()
    said = {'user': user, 'arrangement': name}
    try:
        lab('up', option)
        try:
            where = pairs.Lab(LAB)
            for program in PROGRAMS:
                tell(**said, program=program, **measure(where, program))
        finally:
            lab('down')
    except (LabError, subprocess.TimeoutExpired) as e:
        tell(**said, error=str(e), late=isinstance(e, subprocess.TimeoutExpired))


def run_as(user, name):
    """Run ourselves as that user, with a folder of his own for the lab."""
    number = USERS[user]
    home = f'/run/user-{number}'
    os.makedirs(home, 0o700, exist_ok=True)
    os.chown(home, number, number)
    env = dict(os.environ, HOME=home, XDG_RUNTIME_DIR=home)
    subprocess.run([sys.executable, __file__, '--child', user, name], env=env, user=number, group=number, extra_groups=[], cwd='/',
                   stdin=subprocess.DEVNULL, check=False)


def main():
    if sys.argv[1] == '--child':
        arrangement(*sys.argv[2:])
        return
    if sys.argv[1] == '--yields':
        tell(**yields())
        return
    os.environ['UROCE_BUILD'] = sys.argv[1]
    subprocess.run([sys.executable, __file__, '--yields'], stdin=subprocess.DEVNULL, check=False)
    for each in sys.argv[2:] or [f'{user}/{name}' for user in USERS for name in ARRANGEMENTS]:
        run_as(*each.split('/'))


if __name__ == '__main__':
    main()
