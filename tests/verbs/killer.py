# SPDX-License-Identifier: BSD-3-Clause
"""Kills and replaces the daemons of a lab at random moments."""

import os
import re
import signal
import time

from labs import lab_command
from uroce_lab import daemon, restart, telemetry
from uroce_lab.state import Process, State, lock
from uroce_lab.wires import uninterrupted

PAUSE = 0.3, 1.5            # s from one to the next, drawn
IN_A_ROW = 3                # crashes soon after a start
CALM = 3.2                  # s after which a crash is not soon


class Wrong(Exception):
    """What is wrong."""


class Killer:
    """Kills and replaces the daemons of a lab, and looks whether the next ones have everything."""

    def __init__(self, lab, rng):
        self.lab, self.rng = lab, rng
        self.gaps = []              # ms
        self.soon = {}              # host: (crashes in a row, when its daemon served)

    def ask(self, name):
        return telemetry.ask(self.lab.data, self.lab.hosts[name], '/uroce/handover')

    def load(self):
        self.lab.data = State(self.lab.name).load().data
        self.lab.hosts = {host['name']: host for host in self.lab.data['hosts']}

    def of(self, name):
        """@return the hosts that have the daemon of this one"""
        return tuple(self.lab.hosts) if self.lab.data['one_process'] else (name,)

    def draw(self, kill):
        """@return the hosts whose daemons are next: one, or (where that takes no longer) all at once"""
        if self.lab.data['one_process']:
            return ('h1',)
        names = tuple(self.lab.hosts)
        return self.rng.choice([*((name,) for name in names), *([names] if kill and len(names) > 1 and self.lab.data['standby'] else [])])

    def pause(self, kill, names):
        """For a drawn time, and until another crash is not one too many."""
        time.sleep(self.rng.uniform(*PAUSE))
        if not kill:
            return
        for name in names:
            crashes, since = self.soon.get(name, (0, 0))
            if crashes == IN_A_ROW:
                time.sleep(max(0.0, since + CALM - time.monotonic()))

    def count(self, name, begin, kill):
        crashes, since = self.soon.get(name, (0, 0))
        self.soon[name] = ((crashes + 1 if begin - since < CALM else 1) if kill else 0), time.monotonic()

    def act(self, kill, names):
        """@return whether all of the daemons had programs"""
        before = {host: self.ask(host)['crashes'] for name in names for host in self.of(name)}
        begin = time.monotonic()
        if len(names) > 1:
            self.kill_all(names)
        else:
            done = lab_command('restart', '--name', self.lab.name, *(['--kill'] if kill else []), *names)
            if done.returncode:
                raise Wrong(f'restart {names[0]}: {done.stdout}')
        self.load()
        had = True
        for name in names:
            self.count(name, begin, kill)
            for host in self.of(name):
                seen = self.ask(host)
                if (seen['refused'], seen['qps_lost'], seen['saves']) != (0, 0, 1) or (kill and seen['crashes'] != before[host] + 1):
                    raise Wrong(f'{host}: crashes {before[host]}, then {seen}')
                had = had and seen['sessions'] > 0
            self.gaps.append(seen['gap_us'] / 1000)
        return had

    def kill_all(self, names):
        """At once. Each has a standby."""
        with lock(), uninterrupted():
            state = State(self.lab.name).load()
            hosts = [host for host in state.data['hosts'] if host['name'] in names]
            logs = [os.path.getsize(host['log']) for host in hosts]
            for host in hosts:
                Process.of(host['pid_file']).signal(signal.SIGKILL)
            # A standby serves while the kernel still closes the sockets of the daemon that was killed, and the lab would take that for the one that serves.
            for host in hosts:
                restart.kill(host)
            for host, log_from in zip(hosts, logs):
                standby = Process.of(host['pid_file'] + daemon.STANDBY)
                daemon.wait_said(host, 'uroced: ready', log_from, lambda standby=standby: None if standby.alive() else 'unknown')
            for host in hosts:
                restart.adopt(state, host)
                restart.stand_by(state, host)

    def logs(self):
        found = ''
        for name, host in self.lab.hosts.items():
            with open(host['log'], encoding='utf-8', errors='replace') as f:
                said = [line for line in f.read().splitlines() if not re.match('EAL|TELEMETRY', line)]
            found += f'-- {name}\n' + '\n'.join(said[-30:]) + '\n'
        return found
