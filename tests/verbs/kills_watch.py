# SPDX-License-Identifier: BSD-3-Clause
"""What daemons, their keepers and programs have: memory and descriptors, to be compared before and after many kills."""

import contextlib
import os
import time

from labs import REST_SECONDS
from uroce_lab.pair import family

KEEPER = '.keeper'          # behind the daemon's socket
REST_TRIES = 40
RISING_KB, RISING_SECONDS = 1 << 10, 1      # a program whose memory grows faster than that has only just begun
# How much more there may be in the end. Descriptors, memfds and files: none.
MORE_KB = {'daemon': 16 << 10, 'keeper': 1 << 10, 'memfds': 0, 'files': 256}
# EAL's folders of daemons that have ended are removed by a daemon that starts after that. The last ones may have ended later.
ENDED_FOLDERS = 4


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


def open_files(pid):
    """Each descriptor's (link, path)"""
    for fd in os.listdir(f'/proc/{pid}/fd'):
        path = f'/proc/{pid}/fd/{fd}'
        try:
            yield os.readlink(path), path
        except OSError:
            continue


def is_of_eal(link):
    """Whether it is EAL's memory. A daemon that found no hugepages has a memfd, and another number of descriptors."""
    return link.startswith('/memfd:nohuge') or '/huge/' in link or '/fbarray_memseg' in link


def descriptors(pid):
    return sum(not is_of_eal(link) for link, _ in open_files(pid))


def memfds(pids, wanted):
    """@return how much memory the memfds have that these processes hold, each once, in KB; those whose links WANTED says"""
    found = {}
    for pid in pids:
        for link, path in open_files(pid):
            with contextlib.suppress(OSError):
                if link.startswith('/memfd:') and wanted(link):
                    info = os.stat(path)
                    found[info.st_ino] = info.st_blocks // 2
    return sum(found.values())


def memfds_kb(pids):
    return memfds(pids, lambda link: not is_of_eal(link))


def own_kb(pid):
    """What is resident, without EAL's memory"""
    return resident_kb(pid) - memfds((pid,), is_of_eal)


def has_ended(folder):
    """Whether it is EAL's of a daemon that began beside another one, which is in its name, and has ended"""
    pid = folder.rpartition('.')[2]
    return os.path.basename(os.path.dirname(folder)) == 'dpdk' and pid.isdigit() and not os.path.exists(f'/proc/{pid}')


def files_kb(folder):
    """@return how much the lab's folder has, and EAL's files of daemons in it, but not the logs; how many of EAL's folders are of daemons that have ended"""
    total = ended = 0
    for where, folders, names in os.walk(folder):
        if has_ended(where):
            folders.clear()
            ended += 1
            continue
        for name in names:
            try:
                total += os.lstat(os.path.join(where, name)).st_blocks // 2 if not name.endswith('.log') else 0
            except OSError:
                continue
    return total, ended


def look(lab):
    """@return {what: how much} of a lab in which no program runs"""
    files, ended = files_kb(lab.data['dir'])
    found = {'files KB': files, 'ended folders': max(ended, ENDED_FOLDERS)}
    for host in lab.data['hosts'][:1] if lab.data['one_process'] else lab.data['hosts']:
        name, daemon, keeper = host['name'], lab.pid(host['name']), keeper_pid(host)
        found |= {f'{name} daemon KB': own_kb(daemon), f'{name} daemon descriptors': descriptors(daemon), f'{name} keeper KB': resident_kb(keeper),
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
