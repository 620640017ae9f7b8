# SPDX-License-Identifier: BSD-3-Clause
"""Labs for tests: raised by the command a user has, gone afterwards also when the test is interrupted or its time is up.

main() runs the tests of a file and says what meson is to count.
"""

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import time
import unittest

from uroce_lab import LabError, daemon, pairs, telemetry
from uroce_lab.state import Process, State, is_root

SKIPPED = 77                # meson: the test was skipped
UP_SECONDS = 120
IDLE_SECONDS = 20           # until a daemon has closed what belonged to programs that have ended
REST_SECONDS = 0.3
AF_XDP = 44                 # linux/socket.h; Python has no name for it
LAB = os.path.join(daemon.ROOT, 'scripts/uroce-lab')
NAME = f't{os.getpid()}'

AS_NOBODY = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']

raised = set()              # names of the labs that there are


class Skip(unittest.SkipTest):
    """What this machine or user lacks."""


def closed_to_others():
    """What keeps other users from running programs of this tree, None if nothing: root's home is root's alone on a new machine."""
    folder = daemon.build_dir()
    while (folder := os.path.dirname(folder)) != '/':
        if not os.stat(folder).st_mode & 0o001:
            return f'other users may not enter {folder}: clone into a folder that they may enter'
    return None


def not_as_others():
    """Why programs can't be run as another user, None if they can."""
    return closed_to_others() if is_root() else 'only root can run programs as somebody else'


def lab_command(*args, **options):
    return subprocess.run([LAB, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=UP_SECONDS, check=False, **options)


class TestLab(pairs.Lab):
    def __init__(self, name, options):
        self.options = options
        self._up(name)
        super().__init__(name)

    def _up(self, name):
        # Where there are few CPUs a lab has one process for both hosts; most tests want a daemon per host.
        processes = () if '--one-process' in self.options else ('--no-one-process',)
        done = lab_command('up', '--name', name, *processes, *self.options)
        if done.returncode:
            raise LabError(done.stdout)

    def run(self, host, *program, timeout=30):
        try:
            return super().run(host, *program, timeout=timeout)
        except subprocess.TimeoutExpired as e:
            said = (e.stdout or b'').decode(errors='replace')
            raise LabError(f'{" ".join(program)}: no end after {timeout} s; it said\n{said}\n{self.logs()}') from None

    def whole(self):
        return all(Process.of(host['pid_file']).alive() for host in self.hosts.values())

    def pid(self, host):
        return Process.of(self.hosts[host]['pid_file']).pid

    def wait_sessions(self, host, some):
        """Until the daemon has sessions, or none any more."""
        end = time.monotonic() + IDLE_SECONDS
        while bool((sessions := telemetry.ask(self.data, self.hosts[host], '/uroce/session'))['all']) != some:
            if time.monotonic() > end:
                raise LabError(f'{host}: {sessions} after {IDLE_SECONDS} s\n{self.logs()}')
            time.sleep(0.05)

    def descriptors(self, host):
        """How many the daemon has, once their number rests: its telemetry closes a connection some time after the answer."""
        before = None
        while (now := len(os.listdir(f'/proc/{self.pid(host)}/fd'))) != before:
            before = now
            time.sleep(REST_SECONDS)
        return now

    def reload(self, host, key, value):
        """Have the daemon read another configuration, with this value of a key of its port; without a value the key isn't there."""
        path = os.path.join(self.hosts[host]['dir'], 'uroced.conf')
        with open(path, encoding='utf-8') as f:
            lines = [line for line in f.read().splitlines() if line.split('=')[0].strip() != key]
        at = lines.index('[port uroce0]') + 1
        lines[at:at] = [f'{key} = {value}'] if value else []
        with open(path, 'w', encoding='utf-8') as f:
            f.write('\n'.join(lines) + '\n')
        os.kill(self.pid(host), signal.SIGHUP)

    def restart(self):
        lab_command('down', '--name', self.name)
        self._up(self.name)
        self.data = State(self.name).load().data


def lacking(options):
    """What this machine or user lacks for a lab of these options, None if nothing."""
    if 'veth' not in options:
        return None
    if not is_root():
        return 'the veth wire needs root'
    # As `ip netns` makes them.
    done = subprocess.run(['unshare', '--net', '--mount', 'true'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        return f'the veth wire needs network namespaces: {done.stdout.strip()}'
    if 'af_xdp' in options:
        try:
            socket.socket(AF_XDP, socket.SOCK_RAW).close()
        except OSError as e:
            return f'no XDP sockets here: {e.strerror}'
    return None


def down(name):
    """In a session of its own: half a second after its SIGTERM meson kills our process group."""
    done = lab_command('down', '--name', name, start_new_session=True)
    raised.discard(name)
    if done.returncode:
        print(done.stdout)


@contextlib.contextmanager
def lab_up(*options, name=NAME):
    if why := lacking(options):
        raise Skip(why)
    raised.add(name)
    try:
        lab = TestLab(name, options)
    except LabError:
        raised.remove(name)     # `up` takes back what it did
        raise
    try:
        yield lab
    finally:
        down(name)


def end():
    # An interrupt passes unittest without a tearDownClass or a cleanup. Programs first: that takes no time.
    pairs.kill_sides()
    for name in sorted(raised):
        down(name)


atexit.register(end)
# KeyboardInterrupt: SystemExit unittest counts as an error of the one test, and goes on.
signal.signal(signal.SIGTERM, signal.default_int_handler)


class Result(unittest.TextTestResult):
    good = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.good += 1


class Runner(unittest.TextTestRunner):
    resultclass = Result


def main(argv=None):
    """Run the tests of the program that was started. @return its status, SKIPPED where not one was run"""
    result = unittest.main(argv=argv, testRunner=Runner, verbosity=2, exit=False).result
    if not result.wasSuccessful():
        return 1
    return 0 if result.good else SKIPPED
