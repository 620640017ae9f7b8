# SPDX-License-Identifier: BSD-3-Clause
"""What daemons, their keepers and programs have: memory and descriptors, to be compared before and after many kills."""

import os
import time

from labs import REST_SECONDS
from uroce_lab.pair import family

KEEPER = '.keeper'          # behind the daemon's socket
REST_TRIES = 40
RISING_KB, RISING_SECONDS = 1 << 10, 1      # a program whose memory grows faster than that has only just begun
# How much more there may be in the end. Descriptors, memfds and files: none.
MORE_KB = {'daemon': 16 << 10, 'keeper': 1 << 10, 'memfds': 0, 'files': 256}


def command(pid):
    try:
        with open(f'/proc/{pid}/cmdline', encoding='utf-8', errors='replace') as f:
            return f.read().split('\0')[:-1]
    except OSError:
        return []


def keeper_pid(host):
    """@return the keeper of a host's daemon"""
    return next(int(pid) for pid in os.listdir('/proc') if pid.isdigit() and command(pid)[-1:] == [host['socket'] + KEEPER])


def resident_kb(pid):
    with open(f'/proc/{pid}/status', encoding='ascii', errors='replace') as f:
        return next((int(line.split()[1]) for line in f if line.startswith('VmRSS:')), 0)


def descriptors(pid):
    return len(os.listdir(f'/proc/{pid}/fd'))


def memfds_kb(pids):
    """@return how much memory the memfds have that these processes hold, each once"""
    found = {}
    for pid in pids:
        for fd in os.listdir(f'/proc/{pid}/fd'):
            path = f'/proc/{pid}/fd/{fd}'
            try:
                if os.readlink(path).startswith('/memfd:'):
                    info = os.stat(path)
                    found[info.st_ino] = info.st_blocks // 2
            except OSError:
                continue
    return sum(found.values())


def files_kb(folder):
    """@return how much the lab's folder has, and EAL's files in it, but not the logs"""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(where, name)).st_blocks // 2 if not name.endswith('.log') else 0
            except OSError:
                continue
    return total


def look(lab):
    """@return {what: how much} of a lab in which no program runs"""
    found = {'files KB': files_kb(lab.data['dir'])}
    for host in lab.data['hosts'][:1] if lab.data['one_process'] else lab.data['hosts']:
        name, daemon, keeper = host['name'], lab.pid(host['name']), keeper_pid(host)
        found |= {f'{name} daemon KB': resident_kb(daemon), f'{name} daemon descriptors': descriptors(daemon), f'{name} keeper KB': resident_kb(keeper),
                  f'{name} keeper descriptors': descriptors(keeper), f'{name} memfds KB': memfds_kb((daemon, keeper))}
    return found


def look_at_rest(lab):
    """The same, when it doesn't change any more: the keeper closes in a thread, and telemetry some time after its answer."""
    before = {}
    for _ in range(REST_TRIES):
        if (now := look(lab)) == before:
            break
        before = now
        time.sleep(REST_SECONDS)
    return now


def grown(before, after):
    """@return what there is more of than there may be, as text"""
    allowed = {what: next((kb for kind, kb in MORE_KB.items() if f'{kind} KB' in what), 0) for what in before}
    return ', '.join(f'{what}: {before[what]}, then {after[what]}' for what in before if after[what] > before[what] + allowed[what])


class Programs:
    """The processes of a pair, as they were at first and are at last."""

    def __init__(self, pid, name):
        self.pids = [pid for pid in family(pid) if os.path.basename((command(pid) or [''])[0]) == name]
        self.first = self.last = self._look_at_rest()

    def _look(self):
        found = {}
        for pid in self.pids:
            try:
                found[pid] = descriptors(pid), resident_kb(pid)
            except OSError:
                continue
        return found

    def _look_at_rest(self):
        """UCX's pools come into use with the first messages: tens of MB."""
        before = None
        for _ in range(REST_TRIES):
            now = self._look()
            if before and sum(kb for _, kb in now.values()) <= sum(kb for _, kb in before.values()) + RISING_KB:
                break
            before = now
            time.sleep(RISING_SECONDS)
        return now

    def look(self):
        """Those that have ended are left out."""
        self.last = {**self.last, **self._look()}

    def more(self):
        """@return (descriptors, KB) by which the one that has grown most has grown"""
        grew = [(self.last[pid][0] - self.first[pid][0], self.last[pid][1] - self.first[pid][1]) for pid in self.first]
        return max((d for d, _ in grew), default=0), max((kb for _, kb in grew), default=0)
