# SPDX-License-Identifier: BSD-3-Clause
"""A row: a program, the packages that bring it, and a function that runs it on two hosts of a lab and checks what came of it."""

import glob
import shutil
import time

from uroce_lab import LabError, pairs
from uroce_lab.telemetry import ask

SERVER = '198.18.0.1'       # h1; the client runs on h2
READY_SECONDS = 20          # until a server listens
LEFT_SECONDS = 10           # until the daemon has let go of what a program that has ended had


class Failed(Exception):
    """What is wrong, with everything there is to see."""


def absent(needs):
    return [name for name, what in needs.items() if not (glob.glob(what) if what.startswith('/') else shutil.which(what))]


class Row:
    def __init__(self, name, needs, run, seconds=60, daily=True, built=None):
        """`needs`: {package: a command of it, or a pattern of a file}. `built`: the same for what no package has. `run(lab, seconds)` raises Failed."""
        self.name = name
        self.needs = needs
        self.built = built or {}
        self.run = run
        self.seconds = seconds
        self.daily = daily

    def lacking(self):
        """@return what is not there of what the row needs, '' if nothing"""
        packages, built = absent(self.needs), absent(self.built)
        return '; '.join([*(['no package ' + ', '.join(packages)] if packages else []),
                          *([f'no {", ".join(built)} in PATH or UROCE_PROGRAMS'] if built else [])])


def require(right, what, *sides):
    if not right:
        raise Failed('\n'.join([what, *(side.report() for side in sides)]))


def until(what, condition, seconds, *sides):
    end = time.monotonic() + seconds
    while not condition():
        require(time.monotonic() < end, what, *sides)
        time.sleep(0.02)


def cm(lab, host):
    return ask(lab.data, lab.hosts[host], '/uroce/cm')


def cm_listens(lab):
    """A server of rdma_cm has no TCP port to look at: the daemon counts its listener."""
    return lambda _: cm(lab, 'h1')['listeners'] > 0


def tcp_listens(port):
    return lambda side: side.listens(port)


def nothing_is_left(lab):
    for host in lab.hosts:
        until(f'{host}: connections are left', lambda: cm(lab, host)['ids'] == 0, LEFT_SECONDS)


def no_listener_is_left(lab):
    until('a listener of an earlier program is left', lambda: cm(lab, 'h1')['listeners'] == 0, LEFT_SECONDS)


def both(lab, server, client, ready, seconds):
    """Run two programs (lists) to their ends: status 0, each. @return their sides"""
    no_listener_is_left(lab)
    end = time.monotonic() + seconds
    sides = [pairs.Side(lab, 'h1', server)]
    try:
        until('the server does not listen', lambda: ready(sides[0]) or sides[0].child.poll() is not None, READY_SECONDS, *sides)
        sides.append(pairs.Side(lab, 'h2', client))
        while time.monotonic() < end and any(side.child.poll() is None for side in sides):
            if any(side.status for side in sides):      # then the other may wait for it in vain
                end = min(end, time.monotonic() + pairs.GRACE_SECONDS)
            running = [side for side in sides if side.child.poll() is None]
            if running:
                running[-1].wait(min(end, time.monotonic() + 0.1))
    finally:
        for side in sides:
            side.kill()
    require(all(side.status == 0 for side in sides), 'not both ended with status 0', *sides)
    return sides


def served(lab, server, ready, work):
    """Run `work` while `server` runs on h1: for servers that don't end by themselves."""
    no_listener_is_left(lab)
    side = pairs.Side(lab, 'h1', server)
    try:
        until('the server does not listen', lambda: ready(side) or side.child.poll() is not None, READY_SECONDS, side)
        work(side)
    finally:
        side.kill()


def run_row(lab, row):
    """@return '' or what went wrong"""
    try:
        row.run(lab, row.seconds)
        nothing_is_left(lab)
    except (Failed, LabError) as e:
        return f'{e}\n{lab.logs()}'
    return '' if lab.whole() else 'a daemon ended:\n' + lab.logs()
