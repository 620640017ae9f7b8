# SPDX-License-Identifier: BSD-3-Clause
"""restart: another daemon goes on with the programs of the one that runs, beside it or after its end; connections live."""

import contextlib
import os
import select
import shutil
import signal
import socket
import time

from . import LabError, daemon, telemetry
from .lab import hosts_of, lib, note, ring_hugepages, spare_huge_file
from .state import Process, State, lock
from .wires import uninterrupted

SECONDS = 60                # until a process has ended, on a busy machine
END_SECONDS = 5


def wait_served(host, child, log_from):
    """Wait until the new daemon serves."""
    daemon.wait_said(host, 'uroced: ready', log_from, child.poll)


@contextlib.contextmanager
def spare_hugepages(lab):
    """@return whether there are hugepages for a second daemon, until the first has ended."""
    if not lab['hugepages']:
        yield False
        return
    status, reason = lib('hugepages_up', spare_huge_file(lab), daemon.HUGE_MB // 2, ring_hugepages())
    if status:
        note(f'the new uroced gets ordinary pages instead of hugepages: {reason}')
    try:
        yield status == 0
    finally:
        lib('hugepages_down', spare_huge_file(lab))


def wait_ended(host, what, process, seconds, step):
    end = time.monotonic() + seconds
    while process.alive():
        if time.monotonic() > end:
            raise LabError(f'{what} of {host["name"]}, pid {process.pid}, does not end; its log: {host["log"]}')
        time.sleep(step)


def restart(state, host, how):
    """Restart the daemon of a host, and so those of all hosts that it serves. @param how  hand_over, stop_and_start, kill_and_start or kill_and_stand_in."""
    # Also after a stop: another lab may have taken the pages that were free for a moment. After a crash the keeper still has the namespace with the old ones.
    adopt(state, host)
    standby = Process.of(host['pid_file'] + daemon.STANDBY)
    with spare_hugepages(state.data) as hugepages:
        how(state, host, hugepages)
        if state.data.get('standby'):
            # A standby that isn't the daemon now has been told to end, at the lowest priority. The next one takes its pid file, so the lab must see its end first.
            if standby.pid != Process.of(host['pid_file']).pid:
                wait_ended(host, 'the old standby', standby, SECONDS, 0.01)
                daemon.forget_standby(state.data, host, standby)
            # What the old daemon had may be gone with it: if another lab is taken down before its programs have ended, the kernel takes the first pages
            # that anybody returns.
            daemon.start_standby(state.data, host, hugepages)


def stand_by(state, host):
    """Start a standby for a host that has lost its one. The caller has locked out other labs, which would take the pages."""
    with spare_hugepages(state.data) as hugepages:
        daemon.start_standby(state.data, host, hugepages)


class Manager:
    """What a service manager does for a daemon with --keep-programs: sd_notify(3) with FDSTORE=1, FDSTOREREMOVE=1 and BARRIER=1."""

    def __init__(self, path):
        self.path = path
        self.kept = None                # (descriptor, name)
        self.polled = False             # FDPOLL=0 was not said: it is closed when it has hung up

    def __enter__(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        # The daemon may have given up the rights of who raised the lab.
        os.chmod(self.path, 0o666)
        self.socket.settimeout(0.05)
        return self

    def __exit__(self, *_):
        self.socket.close()
        os.unlink(self.path)
        self.drop()

    def drop(self):
        if self.kept:
            os.close(self.kept[0])
        self.kept = None

    def poll(self):
        poll = select.poll()
        if self.kept and self.polled:
            poll.register(self.kept[0], 0)
            if poll.poll(0):
                self.drop()

    def take(self):
        """Take a message, if one comes soon."""
        self.poll()
        try:
            text, descriptors, _, _ = socket.recv_fds(self.socket, 4096, 1)
        except TimeoutError:
            return
        said = dict(line.partition('=')[::2] for line in text.decode().splitlines())
        if said.get('FDSTORE') == '1' and descriptors:
            self.drop()
            self.kept = descriptors.pop(), said['FDNAME']
            self.polled = said.get('FDPOLL') != '0'
        if said.get('FDSTOREREMOVE') == '1' and self.kept and said.get('FDNAME') == self.kept[1]:
            self.drop()
        for descriptor in descriptors:
            os.close(descriptor)


def stop_and_start(state, host, hugepages):
    """As `systemctl restart` does it."""
    lab = state.data
    old = Process.of(host['pid_file'])
    log_from = os.path.getsize(host['log'])
    with Manager(daemon.notify_socket(host)) as manager:
        begin = time.monotonic()
        old.signal(signal.SIGTERM)
        while old.alive():
            if time.monotonic() - begin > SECONDS:
                raise LabError(f'uroced of {host["name"]}, pid {old.pid}, does not end; its log: {host["log"]}')
            manager.take()
        manager.poll()
        child = daemon.start(lab, host, hugepages=hugepages, again=True, kept=manager.kept)
        wait_served(host, child, log_from)
        while manager.kept:
            manager.take()
        seconds = time.monotonic() - begin
    has_first_prefix(state, host)
    names = ' and '.join(served['name'] for served in daemon.hosts_of(lab, host))
    print(f'{names}: uroced pid {old.pid} has ended, pid {child.pid} serves after {seconds:.2f} s')


def has_first_prefix(state, host):
    """The daemon began as the first one did."""
    for served in daemon.hosts_of(state.data, host):
        served['prefix'] = daemon.first_prefix(state.data, host)
        served['telemetry'] = telemetry.socket_path(state.data, host, served['prefix'])
    state.save()


def kill(host):
    """@return (the process that was killed, when)"""
    old = Process.of(host['pid_file'])
    begin = time.monotonic()
    old.signal(signal.SIGKILL)
    wait_ended(host, 'uroced', old, SECONDS, 0.001)
    return old, begin


def kill_and_start(state, host, hugepages):
    """As if the daemon had crashed, and the service manager had started it again."""
    lab = state.data
    log_from = os.path.getsize(host['log'])
    old, begin = kill(host)
    child = daemon.start(lab, host, hugepages=hugepages, again=True)
    wait_served(host, child, log_from)
    seconds = time.monotonic() - begin
    has_first_prefix(state, host)
    names = ' and '.join(served['name'] for served in daemon.hosts_of(lab, host))
    print(f'{names}: uroced pid {old.pid} was killed, pid {child.pid} serves after {seconds:.2f} s')


def kill_and_stand_in(state, host, _):
    """As if the daemon had crashed, beside which a standby waits."""
    lab = state.data
    standby = Process.of(host['pid_file'] + daemon.STANDBY)
    if not standby.alive():
        raise LabError(f'{host["name"]} has no standby any more; its log: {host["log"]}')
    log_from = os.path.getsize(host['log'])
    old, begin = kill(host)
    daemon.wait_said(host, 'uroced: ready', log_from, lambda: None if standby.alive() else 'unknown')
    seconds = time.monotonic() - begin
    adopt(state, host)
    names = ' and '.join(served['name'] for served in daemon.hosts_of(lab, host))
    print(f'{names}: uroced pid {old.pid} was killed, its standby pid {standby.pid} serves after {seconds:.3f} s')


def adopt(state, host):
    """A standby whose daemon has ended is the daemon."""
    standby = host['pid_file'] + daemon.STANDBY
    serving = daemon.serving(host)
    if serving.pid == Process.of(host['pid_file']).pid:
        return
    old_files = telemetry.eal_folder(state.data, host, daemon.prefix(state.data, host))
    os.rename(standby, host['pid_file'])
    has_own_prefix(state, host, serving.pid)
    shutil.rmtree(old_files, ignore_errors=True)


def has_own_prefix(state, host, pid):
    """The daemon began beside another one."""
    for served in daemon.hosts_of(state.data, host):
        served['prefix'] = daemon.standby_prefix(state.data, host, pid)
        served['telemetry'] = telemetry.socket_path(state.data, host, served['prefix'])
    state.save()


def hand_over(state, host, hugepages):
    lab = state.data
    old = Process.of(host['pid_file'])
    old_files = telemetry.eal_folder(lab, host, daemon.prefix(lab, host))
    log_from = os.path.getsize(host['log'])
    next_file = host['pid_file'] + daemon.NEXT
    begin = time.monotonic()
    child = daemon.start(lab, host, take_over=True, hugepages=hugepages)
    try:
        wait_served(host, child, log_from)
    except BaseException:
        if old.alive():
            Process.of(next_file).stop(child.poll)
        raise
    seconds = time.monotonic() - begin
    os.rename(next_file, host['pid_file'])
    has_own_prefix(state, host, child.pid)
    wait_ended(host, 'the old uroced', old, END_SECONDS, 0.01)
    shutil.rmtree(old_files, ignore_errors=True)
    served = ' and '.join(served['name'] for served in daemon.hosts_of(lab, host))
    print(f'{served}: uroced pid {child.pid} has taken over from pid {old.pid}, {seconds:.2f} s after its start')


def run(options):
    with lock(), uninterrupted():
        state = State(options.name).load()
        hosts = hosts_of(state, options.host)
        if state.data['wire'] == 'memif' and not state.data['one_process']:
            raise LabError('memif: DPDK\'s driver does not connect again when the daemon at its other end is another one; '
                           'raise the lab by --one-process, or with --wire veth')
        if state.data['one_process']:
            hosts = state.data['hosts'][:1]
        killing = kill_and_stand_in if state.data.get('standby') else kill_and_start
        for host in hosts:
            restart(state, host, stop_and_start if options.stop else killing if options.kill else hand_over)
