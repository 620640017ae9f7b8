# SPDX-License-Identifier: BSD-3-Clause
"""A uroced of one port that a test starts by itself, where there is no lab."""

import os
import signal
import socket
import subprocess
import time

from uroce_lab import LabError, telemetry, wires

READY_SECONDS = 120
END_SECONDS = 30


class Uroced:
    def __init__(self, name, index, folder, build, ethdev, keys='', user='', also=()):
        """
        @param index  of its addresses
        @param ethdev  DPDK's name of the port
        @param keys  lines of the port's section
        @param user  daemon.user, or '' for the default
        @param also  further addresses of the port
        """
        self.name, self.folder, self.build = name, folder, build
        self.socket = os.path.join(folder, 'uroced.sock')
        self.log = os.path.join(folder, 'uroced.log')
        self.config = os.path.join(folder, 'uroced.conf')
        # As for a host of a lab.
        self.entry = {'name': name, 'index': index, 'namespace': '', 'dir': folder, 'log': self.log, 'socket': self.socket,
                      'telemetry': os.path.join(folder, 'dpdk', name, 'dpdk_telemetry.v2')}
        self.child = None
        os.makedirs(folder, exist_ok=True)
        with open(self.config, 'w', encoding='ascii') as f:
            f.write(f'[daemon]\nsocket = {self.socket}\nsocket_mode = 0666\nidle = adaptive\n{f"user = {user}" if user else ""}\n'
                    f'[port uroce0]\nethdev = {ethdev}\naddresses = {" ".join([f"{wires.ipv4(index)}/24", f"{wires.ipv6(index)}/64", *also])}\n{keys}')

    def start(self, *eal, prefix=(), more=()):
        """
        Start it, and wait until it serves. Its folder has EAL's files.
        @param prefix  a command that starts it
        @param more  options of its own
        """
        command = [*prefix, os.path.join(self.build, 'app/uroced/uroced'), '--file-prefix', self.name, *eal, '--', '--config', self.config, *more]
        with open(self.log, 'a', encoding='utf-8') as log:
            self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(os.environ, RUNTIME_DIRECTORY=self.folder),
                                          cwd='/')
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end and self.child.poll() is None:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                if s.connect_ex(self.socket) == 0:
                    return
            time.sleep(0.05)
        raise LabError(f'uroced of {self.name} does not serve: status {self.child.poll()}\n{self.said()}')

    def take_over(self, *eal):
        """Start another one that goes on with what this one has, and wait for the end of this one."""
        before = self.child
        self.start(*eal, more=('--take-over',))
        self.entry['telemetry'] = os.path.join(self.folder, 'dpdk', f'{self.name}.{self.child.pid}', 'dpdk_telemetry.v2')
        before.wait(END_SECONDS)

    def said(self):
        with open(self.log, encoding='utf-8', errors='replace') as f:
            return f.read()[-6000:]

    def program(self, *words):
        """@return the command that runs a verbs program on it"""
        return [os.path.join(self.build, 'app/uroce-run/uroce-run'), '--socket', self.socket, *words]

    def ask(self, command):
        return telemetry.ask({'one_process': False}, self.entry, command)

    def port(self):
        return self.ask('/uroce/port,uroce0')

    def stop(self):
        """@return what is wrong with its end, or ''."""
        if self.child is None:
            return ''
        self.child.send_signal(signal.SIGTERM)
        try:
            status = self.child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.child.kill()
            status = self.child.wait()
        self.child = None
        return f'uroced of {self.name} ended with status {status}\n{self.said()}' if status else ''
