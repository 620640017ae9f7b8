# SPDX-License-Identifier: BSD-3-Clause
"""Labs for tests: raised by the command a user has, gone afterwards whatever happens."""

import contextlib
import os
import subprocess

from uroce_lab import LabError, daemon, pairs
from uroce_lab.state import Process, State, is_root

SKIPPED = 77                # meson: the test was skipped
UP_SECONDS = 120
LAB = os.path.join(daemon.ROOT, 'scripts/uroce-lab')
NAME = f't{os.getpid()}'


class Skip(Exception):
    """What this machine or user lacks."""


def lab_command(*args):
    return subprocess.run([LAB, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=UP_SECONDS, check=False)


class TestLab(pairs.Lab):
    def __init__(self, name, options):
        self.options = options
        self._up(name)
        super().__init__(name)

    def _up(self, name):
        done = lab_command('up', '--name', name, *self.options)
        if done.returncode:
            raise LabError(done.stdout)

    def whole(self):
        return all(Process.of(host['pid_file']).alive() for host in self.hosts.values())

    def pid(self, host):
        return Process.of(self.hosts[host]['pid_file']).pid

    def restart(self):
        lab_command('down', '--name', self.name)
        self._up(self.name)
        self.data = State(self.name).load().data


@contextlib.contextmanager
def lab_up(*options, name=NAME):
    if 'veth' in options and not is_root():
        raise Skip('the veth wire needs root')
    lab = TestLab(name, options)
    try:
        yield lab
    finally:
        done = lab_command('down', '--name', name)
        if done.returncode:
            print(done.stdout)
