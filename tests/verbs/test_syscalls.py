#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""No system call on the data path: strace counts while ib_write_bw and rstream run.

What an idle engine does to give its core away, and the control thread's waiting, are no part of the data path. A daemon that
may not open /dev/userfaultfd, an ordinary user's, can't convert memory in place and moves it by pread and pwrite.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import lab_up, main  # noqa: E402
from uroce_lab import pairs  # noqa: E402
from uroce_lab.telemetry import ask  # noqa: E402

NAME = f's{os.getpid()}'
WATCH_SECONDS = 3
RUN_SECONDS = 25            # enough for three strace to attach one after the other
START_SECONDS = 20          # until set-up is over and traffic flows
CALLS_PER_SECOND = 20       # what a process may do beside the data path
PACKETS_PER_CALL = 1000     # rstream besides: what is left of a message begins to gather, and the thread that ends that is woken
PSNS = 1 << 24
WAITING = {'sched_yield', 'nanosleep', 'clock_nanosleep', 'poll', 'ppoll', 'epoll_wait', 'epoll_pwait', 'epoll_pwait2', 'select',
           'pselect6', 'restart_syscall', 'getrusage'}    # getrusage: the idle policy asks whether it shares its core
MOVING = {'pread64', 'pwrite64'}


def converts_memory():
    return os.access('/dev/userfaultfd', os.R_OK | os.W_OK)


def count(pid, path):
    """@return {system call: how often} over WATCH_SECONDS"""
    tracer = subprocess.Popen(['strace', '-f', '-c', '-o', path, '-p', str(pid)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(WATCH_SECONDS)
    tracer.send_signal(signal.SIGINT)
    _, said = tracer.communicate(timeout=30)
    calls = {}
    with open(path, encoding='utf-8') as f:
        for line in f:
            words = line.split()
            if len(words) >= 5 and words[3].isdigit() and words[-1] != 'total':
                calls[words[-1]] = int(words[3])
    if 'attached' not in said:
        raise unittest.SkipTest(f'strace can not attach here: {said}')
    return calls


class Syscalls(unittest.TestCase):
    def setUp(self):
        if not shutil.which('strace'):
            self.skipTest('strace is not installed')
        up = lab_up(name=NAME)
        self.lab = up.__enter__()
        self.addCleanup(up.__exit__, None, None, None)
        self.scratch = tempfile.mkdtemp(prefix='uroce-strace-')
        self.addCleanup(shutil.rmtree, self.scratch)

    def few(self, who, calls, packets=0):
        allowed = WAITING if converts_memory() else WAITING | MOVING
        beside = {name: number for name, number in calls.items() if name not in allowed}
        print(f'{who}: {calls or "none at all"} in {WATCH_SECONDS} s', flush=True)
        limit = CALLS_PER_SECOND * WATCH_SECONDS + packets // PACKETS_PER_CALL
        self.assertLess(sum(beside.values()), limit, f'{who} called {beside}')

    def sent(self, host):
        """The next PSN of the only QP of a host."""
        qpn = ask(self.lab.data, self.lab.hosts[host], '/uroce/qp')['numbers'][0]
        return ask(self.lab.data, self.lab.hosts[host], f'/uroce/qp,{qpn}')['requester']['psn_next']

    def flows(self, host):
        """Wait until the only QP of a host sends."""
        end = time.monotonic() + START_SECONDS
        while not ask(self.lab.data, self.lab.hosts[host], '/uroce/qp,state=RTS')['all']:
            self.assertLess(time.monotonic(), end, f'no QP of {host} was connected')
            time.sleep(0.02)
        first = self.sent(host)
        while self.sent(host) == first:
            self.assertLess(time.monotonic(), end, f'{host} sent nothing')
            time.sleep(0.02)

    def test_none_in_program_or_engine_while_ib_write_bw_runs(self):
        program = ['ib_write_bw', '-F', '-d', pairs.DEVICE, '-x', str(self.lab.gid_index('h1', 4)), '-s', '4096',
                   '-D', str(RUN_SECONDS)]
        port = self.lab.tcp_port()
        server = pairs.start_server(self.lab, program, port)
        client = pairs.start_client(self.lab, program, port)
        try:
            self.flows('h2')
            path = os.path.join(self.scratch, 'calls')
            self.few('the program', count(client.child.pid, path))
            for host in ('h1', 'h2'):
                self.few(f'uroced of {host}', count(self.lab.pid(host), path))
            self.assertIsNone(client.child.poll(), 'it ended too early:\n' + client.report())
            end = time.monotonic() + RUN_SECONDS + 10
            client.wait(end)
            server.wait(end)
        finally:
            server.kill()
            client.kill()
        self.assertEqual((server.status, client.status), (0, 0), server.report() + client.report())
        self.assertEqual(len(pairs.rows(client.text())), 1)

    def test_none_in_program_while_rstream_runs(self):
        if not shutil.which('rstream'):
            self.skipTest('rdmacm-utils is not installed')
        # Far more than there is time for.
        program = ['rstream', '-T', 'nonblocking', '-S', '65536', '-C', '100000000']
        server = pairs.Side(self.lab, 'h1', program)
        end = time.monotonic() + START_SECONDS
        while ask(self.lab.data, self.lab.hosts['h1'], '/uroce/cm')['listeners'] == 0 and time.monotonic() < end:
            time.sleep(0.02)
        client = pairs.Side(self.lab, 'h2', [*program, '-s', '198.18.0.1'])
        try:
            self.flows('h2')
            for side in (client, server):
                before = self.sent(side.host)
                calls = count(side.child.pid, os.path.join(self.scratch, 'calls'))
                self.few(f'rstream of {side.host}', calls, (self.sent(side.host) - before) % PSNS)
                self.assertIsNone(side.child.poll(), 'it ended:\n' + side.report())
        finally:
            server.kill()
            client.kill()


if __name__ == '__main__':
    sys.exit(main())
