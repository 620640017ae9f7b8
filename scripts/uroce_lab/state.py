# SPDX-License-Identifier: BSD-3-Clause
"""Folders, state (lab.json) and processes of labs.

A lab is a folder with a lab.json that lists everything the lab has made outside of the folder. Each thing is
written down before it is made, so that `down` can undo an `up` that was killed at any point. Hugepages alone are written
down afterwards, by a process that outlives the `up` and holds its lock until then.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import stat
import time

from . import LabError

NAME_PATTERN = re.compile(r'[a-z0-9][a-z0-9-]{0,15}')
SOCKET_PATH_MAX = 95        # the longest path that uroced accepts
LONGEST_SOCKET = '/h99/uroced.sock'
STOP_SECONDS = 5            # how long a daemon may take to end before it is killed
BOOT_ID = '/proc/sys/kernel/random/boot_id'
HUGEPAGES = '/sys/kernel/mm/hugepages/hugepages-2048kB'


def is_root():
    return os.geteuid() == 0


def base_dir():
    """The folder of all labs of this user."""
    if is_root():
        return '/run/uroce-lab'
    runtime = os.environ.get('XDG_RUNTIME_DIR')
    if runtime and os.access(runtime, os.W_OK | os.X_OK):
        return os.path.join(runtime, 'uroce-lab')
    return f'/tmp/uroce-lab-{os.geteuid()}'


def make_base_dir():
    base = base_dir()
    try:
        os.mkdir(base, 0o755 if is_root() else 0o700)
    except FileExistsError:
        pass
    except OSError as e:
        raise LabError(f'{base}: {e.strerror}') from e
    # /tmp is everybody's: a folder that another user put there would let them swap our files and sockets.
    info = os.lstat(base)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o022:
        raise LabError(f'{base} must be a folder of your own that nobody else may write; remove it, '
                       'or set XDG_RUNTIME_DIR to a folder of yours')
    return base


_held = []


def held_locks():
    """@return the descriptors that a command must inherit which may outlive us: nobody else begins before it has ended."""
    return tuple(_held)


@contextlib.contextmanager
def lock_hugepages():
    """Lock out labs of other root folders, which have a /run of their own and the same hugepages: pages that an `up` has
    reserved are free until its daemons take them."""
    if not is_root() or not os.path.isdir(HUGEPAGES):
        yield
        return
    fd = os.open(HUGEPAGES, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        _held.append(fd)
        try:
            yield
        finally:
            _held.remove(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def lock():
    """Lock out other `up` and `down` of this user."""
    with lock_base_dir(), lock_hugepages():
        yield


@contextlib.contextmanager
def lock_base_dir():
    while True:
        fd = os.open(make_base_dir(), os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            # The `down` of the last lab may have removed the folder while we waited.
            if os.path.exists(base_dir()) and os.path.samestat(os.fstat(fd), os.stat(base_dir())):
                _held.append(fd)
                try:
                    yield
                finally:
                    _held.remove(fd)
                return
        finally:
            os.close(fd)


def boot_id():
    with open(BOOT_ID, encoding='ascii') as f:
        return f.read().strip()


def start_time(pid):
    """@return when process `pid` started, in clock ticks since boot, or None if all its threads have ended. Tells it from a later process with the same pid."""
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as f:
            fields = f.read().rpartition(')')[2].split()
    except OSError:
        return None
    # The first thread's state: if other threads end later, the process still has its descriptors, and locks on files.
    ended = fields[0] == 'X' or fields[0] == 'Z' and int(fields[17]) <= 1
    return None if ended else int(fields[19])


class Process:
    """A process that the lab started."""

    def __init__(self, pid, started):
        self.pid = pid
        self.started = started

    @classmethod
    def of(cls, file):
        """@return the process that wrote its pid and start time to `file`; one that is not alive if there is no such file."""
        try:
            with open(file, encoding='ascii') as f:
                pid, started = f.read().split()
            return cls(int(pid), int(started))
        except (OSError, ValueError):
            return cls(0, None)

    def alive(self):
        return self.started is not None and start_time(self.pid) == self.started

    def signal(self, number):
        """@return False if it has ended"""
        try:
            fd = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            # Checked after the open, so that the descriptor is that of the process we mean.
            if not self.alive():
                return False
            signal.pidfd_send_signal(fd, number)
            return True
        except ProcessLookupError:
            return False
        finally:
            os.close(fd)

    def stop(self, reap=None):
        """SIGTERM, then SIGKILL. `reap`: it is our child, wait for it."""
        if not self.pid:
            return
        try:
            fd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            # Checked after the open, so that the descriptor is that of the process we mean.
            if not self.alive():
                return
            for sig, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, STOP_SECONDS)):
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(fd, sig)
                if self._wait(seconds, reap):
                    return
        finally:
            os.close(fd)
        raise LabError(f'process {self.pid} does not end')

    def _wait(self, seconds, reap):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if reap:
                reap()
            if not self.alive():
                return True
            time.sleep(0.02)
        return False


class State:
    """The folder and the state of one lab."""

    def __init__(self, name):
        if not NAME_PATTERN.fullmatch(name):
            raise LabError(f'lab name {name!r}: 1 to 16 lower-case letters, digits and hyphens, no hyphen first')
        self.name = name
        self.dir = os.path.join(base_dir(), name)
        if len(self.dir + LONGEST_SOCKET) > SOCKET_PATH_MAX:
            raise LabError(f'{self.dir} is too long for the path of a unix socket; '
                           'set XDG_RUNTIME_DIR to a shorter one')
        self.file = os.path.join(self.dir, 'lab.json')
        self.data = {}

    def create(self, data):
        try:
            os.mkdir(self.dir, 0o700)
        except FileExistsError:
            raise LabError(f'lab {self.name!r} is already up; '
                           f'`uroce-lab down --name {self.name}` ends it, --name OTHER makes another') from None
        self.data = dict(data, boot=boot_id())
        self.save()

    def load(self):
        try:
            with open(self.file, encoding='utf-8') as f:
                self.data = json.load(f)
        except FileNotFoundError:
            if not os.path.isdir(self.dir):
                up = ', '.join(all_names()) or 'none'
                raise LabError(f'lab {self.name!r} is not up (labs that are: {up}); '
                               f'`uroce-lab up --name {self.name}` raises it') from None
            self.data = {}
        except ValueError:
            self.data = {}
        return self

    def save(self):
        new = self.file + '.new'
        with open(new, 'w', encoding='utf-8') as f:
            json.dump(self.data, f, indent='\t')
            f.write('\n')
        os.rename(new, self.file)

    def this_boot(self):
        """@return whether processes, namespaces and mounts in lab.json can still exist."""
        return self.data.get('boot') == boot_id()

    def remove(self):
        shutil.rmtree(self.dir)
        # Other labs of the user may still be there.
        with contextlib.suppress(OSError):
            os.rmdir(base_dir())


def all_names():
    try:
        return sorted(n for n in os.listdir(base_dir()) if NAME_PATTERN.fullmatch(n))
    except FileNotFoundError:
        return []
