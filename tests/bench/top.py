#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`uroce top` over 10,000 QPs: how long a screen takes, and what it costs an engine.

  tests/bench/top.py [--qps N] [--screens N] [--pairs N] [--seconds S] [--seed N] [--check]

A daemon whose engine has the last CPU for itself; all else runs on the first: the daemon's other threads, a program with N connected QPs that
rest, a pair of programs with 8-byte WRITEs, and `uroce top` on a terminal.

  a screen   from the key that asks for another view (v) to the end of the screen: all QPs are fetched, sorted and drawn. Without the pair,
             which would take the processor time that is to be measured. Beside that the processor time of top and of the daemon's threads but
             for the engine, which other programs on the machine hardly change.
  an engine  its processor time for a packet, the share of its busy turns, in windows of neighbours, in one of which top draws a screen each
             second, while it is paused in the other. Which one is first is drawn. Printed are the median of the ratios (with top by without)
             and between which values it is with a certainty of 95 %.

--check: status 1 if a typical screen takes over 100 ms of processor time, or if packets certainly cost the engine over 1 % more; 2 if it took longer, or
if the machine is too busy to tell.
"""

import argparse
import contextlib
import glob
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '../../scripts'), os.path.join(HERE, '../verbs')]

from telemetry import median_between  # noqa: E402
from uroce_lab import daemon  # noqa: E402
from uroce_lab.telemetry import ask  # noqa: E402

SCREEN_MS, MOST = 100, 1.01         # --check
ENGINE = 'rte-worker-1'
TCP_LISTEN = '0A'
READY_SECONDS = 180
KEY_SECONDS = 20
SILENCE_SECONDS = 1
LINES, COLUMNS = 50, 200
VIEWS = ('qp', 'session', 'port', 'engine')
REDRAW = '\x0c'
CONFIG = """[daemon]
socket = {folder}/u.sock
user = root
idle = poll
session_max_qp = {most}
user_max_qp = {most}

[port uroce0]
ethdev = net_ring0
addresses = 198.18.0.1/24
"""


def read(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


def ran(task):
    """@return seconds that a thread has had a CPU"""
    return int(read(f'{task}/schedstat').split()[0]) / 1e9


class Watched:
    """The daemon and the programs."""

    def __init__(self, folder, stack, qps):
        self.folder, self.stack, self.build = folder, stack, daemon.build_dir()
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            raise SystemExit('give this two CPUs: one for the engine, one for all else')
        self.rest = cpus[0]
        self.host = {'name': 'h1', 'dir': folder, 'telemetry': os.path.join(folder, 'dpdk/top/dpdk_telemetry.v2')}
        config = os.path.join(folder, 'uroced.conf')
        with open(config, 'w', encoding='utf-8') as f:
            f.write(CONFIG.format(folder=folder, most=qps + 100))
        self.env = {**os.environ, 'RUNTIME_DIRECTORY': folder, 'UROCE_SOCKET': f'{folder}/u.sock', 'TERM': 'xterm', 'LC_ALL': 'C.UTF-8'}
        server = self.start('uroced', [self.program('uroced'), f'--lcores=0@{cpus[0]},1@{cpus[-1]}', '--no-pci', '--no-huge', '-m', '700', '--file-prefix=top',
                                       '--vdev=net_ring0', '--', '--config', config])
        self.wait_for('uroced', self.is_ready, server)
        self.pid = server.pid
        self.engine = next(task for task in glob.glob(f'/proc/{server.pid}/task/*') if read(f'{task}/comm').strip() == ENGINE)

    def program(self, name):
        return os.path.join(self.build, 'app', name, name)

    def start(self, name, command):
        with open(os.path.join(self.folder, name), 'w', encoding='utf-8') as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=self.env)
        self.stack.callback(self.end, process)
        return process

    def verbs(self, name, *command):
        return self.start(name, ['taskset', '-c', str(self.rest), self.program('uroce-run'), *command])

    @staticmethod
    def end(process):
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()

    @staticmethod
    def listens(port):
        for table in ('tcp', 'tcp6'):
            with open(f'/proc/net/{table}', encoding='ascii') as f:
                if any(line.split()[1].endswith(f':{port:04X}') and line.split()[3] == TCP_LISTEN for line in f):
                    return True
        return False

    def said(self, name):
        with open(os.path.join(self.folder, name), encoding='utf-8') as f:
            return f.read()

    def is_ready(self, name):
        return 'ready' in self.said(name)

    def wait_for(self, name, ready, process):
        end = time.monotonic() + READY_SECONDS
        while not ready(name):
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f'{name} is not ready; it said\n{self.said(name)}')
            time.sleep(0.05)

    def packets(self):
        return ask({}, self.host, '/uroce/engine,0')['transport']['tx_packets']

    def others_ran(self):
        """Seconds of the daemon's threads but for the engine."""
        return sum(ran(task) for task in glob.glob(f'/proc/{self.pid}/task/*') if task != self.engine)

    def cost(self, seconds):
        """@return the engine's seconds for a packet"""
        samples = []
        for wait in (seconds, 0):
            engine = ask({}, self.host, '/uroce/engine,0')
            samples.append((ran(self.engine), engine['load']['busy_cycles'], engine['load']['idle_cycles'], engine['transport']['tx_packets']))
            time.sleep(wait)
        seconds, busy, idle, packets = (b - a for a, b in zip(*samples))
        if packets == 0:
            raise SystemExit(f'no traffic; the client said\n{self.said("client")}')
        return seconds * busy / (busy + idle) / packets


class Top:
    """uroce top on a terminal."""

    def __init__(self, watched, delay):
        import pexpect                  # pylint: disable=import-outside-toplevel
        self.terminal = pexpect.spawn('taskset', ['-c', str(watched.rest), watched.program('uroce'), 'top', '--delay', str(delay)], timeout=KEY_SECONDS,
                                      dimensions=(LINES, COLUMNS), env=watched.env, encoding='utf-8')
        watched.stack.callback(self.terminal.close, force=True)
        self.terminal.delaybeforesend, self.watched = None, watched
        self.expect(' QPs, ')
        self.last()

    def expect(self, text):
        self.terminal.expect_exact(text)

    def screen(self, qps):
        """@return seconds from the key that shows QPs again until the last of the screen has come; processor time of the daemon and of top"""
        for _ in VIEWS[1:]:
            self.key('v')
            self.last()
        before = self.watched.others_ran(), ran(f'/proc/{self.terminal.pid}')
        begin = time.monotonic()
        self.key('v')
        end = self.last()
        after = self.watched.others_ran(), ran(f'/proc/{self.terminal.pid}')
        # Only what changes is drawn, unless ^L asks for all.
        self.key(REDRAW)
        self.expect(f'uroce top: {qps} QPs, ')
        self.last()
        return end - begin, after[0] - before[0], after[1] - before[1]

    def key(self, key):
        self.terminal.send(key)

    def last(self):
        """Read until nothing has come for a while. @return when the last of it came"""
        import pexpect                  # pylint: disable=import-outside-toplevel
        at = time.monotonic()
        with contextlib.suppress(pexpect.TIMEOUT):
            while True:
                self.terminal.read_nonblocking(1 << 16, SILENCE_SECONDS)
                at = time.monotonic()
        return at

    def drain(self):
        """Read what there is, so that top never waits for us."""
        import pexpect                  # pylint: disable=import-outside-toplevel
        with contextlib.suppress(pexpect.TIMEOUT):
            while True:
                self.terminal.read_nonblocking(1 << 16, 0)


def measure(options, stack):
    folder = tempfile.mkdtemp(prefix='uroce-top-')
    stack.callback(shutil.rmtree, folder)
    watched = Watched(folder, stack, options.qps)
    rest = watched.verbs('rest', os.path.join(watched.build, 'tests/bench/bench_rest'), 'idle', str(options.qps))
    watched.wait_for('rest', watched.is_ready, rest)

    top = Top(watched, 3600)
    screens = [[1e3 * part for part in top.screen(options.qps)] for _ in range(options.screens)]
    top.terminal.close(force=True)

    port = 20000 + os.getpid() % 10000
    write = ('ib_write_bw', '-d', 'uroce0', '-F', '-s', '8', '-p', str(port), '-D', str(int(options.pairs * options.seconds * 4) + 120))
    server = watched.verbs('server', *write)
    watched.wait_for('server', lambda _: watched.listens(port), server)
    watched.verbs('client', *write, '127.0.0.1')
    top = Top(watched, 1)
    end = time.monotonic() + READY_SECONDS
    before = watched.packets()
    while watched.packets() - before < 100000:
        if time.monotonic() > end:
            raise SystemExit(f'no traffic; the client said\n{watched.said("client")}')
        time.sleep(0.1)
    draw, ratios, paused = random.Random(options.seed), [], False
    for _ in range(options.pairs):
        order = [False, True]
        draw.shuffle(order)
        costs = {}
        for still in order:
            if still != paused:
                top.key(' ')
                paused = still
            top.drain()
            costs[still] = watched.cost(options.seconds)
            top.drain()
        ratios.append(costs[False] / costs[True])
    return screens, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--qps', type=int, default=10000)
    parser.add_argument('--screens', type=int, default=10)
    parser.add_argument('--pairs', type=int, default=30, help='of windows')
    parser.add_argument('--seconds', type=float, default=2, help='of a window')
    parser.add_argument('--seed', type=int, default=1, help='of what is drawn')
    parser.add_argument('--check', action='store_true', help=f'status 1 if a screen takes over {SCREEN_MS} ms or a packet costs over {MOST} times as much')
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        screens, ratios = measure(options, stack)
    middle, low, high = median_between(ratios)
    took, of_daemon, of_top = zip(*screens)
    took_ms, used_ms = statistics.median(took), statistics.median(a + b for a, b in zip(of_daemon, of_top))
    print(f'{options.qps} QPs: a screen takes {took_ms:.0f} ms ({min(took):.0f} to {max(took):.0f}, {len(took)} screens); processor time: '
          f'{statistics.median(of_top):.0f} ms of top, {statistics.median(of_daemon):.0f} ms of the daemon')
    print(f'processor time of the engine for a packet, with top by without: {middle:.4f} ({low:.4f} to {high:.4f}, {len(ratios)} pairs of {options.seconds} s)')
    if not options.check:
        return 0
    if used_ms > SCREEN_MS or low > MOST:
        return 1
    return 2 if took_ms > SCREEN_MS or high > MOST else 0


if __name__ == '__main__':
    sys.exit(main())
