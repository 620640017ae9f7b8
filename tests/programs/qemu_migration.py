# SPDX-License-Identifier: BSD-3-Clause
"""QEMU's migration over RDMA: an emulated guest that writes memory all the time moves from h1 to h2 and back.

Its memory is partly random. After each move the memory of both sides is saved and compared, then the guest goes on. What it writes all the
time is compared with what it may have written: an emulated guest's last writes get lost over TCP, too (docs/programs.md).
"""

import array
import contextlib
import functools
import json
import os
import socket
import time

from rows import READY_SECONDS, Failed, Row, require, until
from uroce_lab import pairs

MIB, PAGE = 1 << 20, 4096
MEMORY, RANDOM, RANDOM_AT = 64 * MIB, 24 * MIB, 8 * MIB      # SeaBIOS uses some below 48 MiB
PORT = 4444
MOVES_SECONDS = 60
WRITTEN_AT, WRITTEN_TO = 0x10000, 0x80000
# In real mode at 0x7c00: fills 64 KiB after 64 KiB of that with a 16-bit number that grows, for ever.
BUSY = bytes.fromhex('fa fc bb0010 8ec3 31ff b90080 89d0 f3ab 42 81c30010 81fb0080 72ea ebe5')


class Guest:
    """QEMU on a host, and its monitor."""

    def __init__(self, lab, host, name, *options):
        self.path = os.path.join(lab.data['dir'], f'qemu-{name}')
        self.side = pairs.Side(lab, host, [
            'qemu-system-x86_64', '-machine', 'pc', '-accel', 'tcg', '-m', str(MEMORY // MIB), '-nodefaults', '-no-user-config', '-display', 'none',
            '-drive', f'file={disk(lab)},format=raw,if=ide', '-qmp', f'unix:{self.path}.qmp,server=on,wait=off', *options])
        self.socket = socket.socket(socket.AF_UNIX)
        self.file = None

    def __enter__(self):
        until('no monitor', lambda: self._connect() or self.side.child.poll() is not None, READY_SECONDS, self.side)
        require(self.file, 'QEMU ended', self.side)
        self.file.readline()
        self.ask('qmp_capabilities')
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.side.kill()

    def _connect(self):
        with contextlib.suppress(OSError):
            self.socket.connect(self.path + '.qmp')
            self.socket.settimeout(MOVES_SECONDS)
            self.file = self.socket.makefile(encoding='utf-8')
        return self.file

    def ask(self, command, **arguments):
        """@return what the monitor answers; events are passed over"""
        self.socket.sendall(json.dumps({'execute': command, 'arguments': arguments}).encode() + b'\n')
        while line := self.file.readline():
            answer = json.loads(line)
            if 'event' not in answer:
                require('return' in answer, f'{command}: {answer}', self.side)
                return answer['return']
        raise Failed(f'{command}: QEMU ended\n{self.side.report()}')

    def set_capability(self, name):
        self.ask('migrate-set-capabilities', capabilities=[{'capability': name, 'state': True}])

    def saved(self):
        """@return all its memory"""
        self.ask('pmemsave', val=0, size=MEMORY, filename=self.path + '.memory')
        with open(self.path + '.memory', 'rb') as f:
            return f.read()

    def counter(self):
        """What it has written last."""
        self.ask('pmemsave', val=WRITTEN_AT, size=4096, filename=self.path + '.page')
        with open(self.path + '.page', 'rb') as f:
            return f.read()


def disk(lab):
    path = os.path.join(lab.data['dir'], 'qemu-disk')
    with open(path, 'wb') as f:
        f.write(BUSY.ljust(510, b'\0') + b'\x55\xaa' + bytes(MIB))
    return path


def writes(guest):
    before = guest.counter()
    until('the guest does not go on', lambda: guest.counter() != before, READY_SECONDS, guest.side)


def move(source, target, address):
    source.ask('migrate', uri=f'rdma:{address}:{PORT}')

    def over():
        status = source.ask('query-migrate')
        require(status.get('status') not in ('failed', 'cancelled'), status, source.side, target.side)
        return status.get('status') == 'completed'
    until('the migration does not end', over, MOVES_SECONDS, source.side, target.side)
    until('the target is not there', lambda: target.ask('query-migrate').get('status') == 'completed', READY_SECONDS, target.side)
    there, here = source.saved(), target.saved()
    for begin, end in ((0, WRITTEN_AT), (WRITTEN_TO, MEMORY)):
        require(there[begin:end] == here[begin:end], f'the memory from {begin:#x} to {end:#x} differs', source.side, target.side)
    for at in range(WRITTEN_AT, WRITTEN_TO, PAGE):
        numbers = set(array.array('H', here[at:at + PAGE]))
        require(len(numbers) <= 2, f'the page at {at:#x} is none that the guest has written: {numbers}', target.side)
    target.ask('cont')
    writes(target)


def there_and_back(capabilities, lab, _):
    path = os.path.join(lab.data['dir'], 'qemu-random')
    with open(path, 'wb') as f:
        f.write(os.urandom(RANDOM))
    # -S: stopped when all of it is there, so that the memory is still what was sent.
    with Guest(lab, 'h1', 'first', '-device', f'loader,file={path},addr={RANDOM_AT:#x},force-raw=on') as first, \
            Guest(lab, 'h2', 'second', '-S', '-incoming', f'rdma:{lab.tcp_address("h2")}:{PORT}') as second:
        for guest in (first, second):
            for name in capabilities:
                guest.set_capability(name)
        writes(first)
        move(first, second, lab.tcp_address('h2'))
        with open(path, 'rb') as f:
            require(second.saved()[RANDOM_AT:RANDOM_AT + RANDOM] == f.read(), 'the random memory is not there', second.side)
        with Guest(lab, 'h1', 'third', '-S', '-incoming', f'rdma:{lab.tcp_address("h1")}:{PORT}') as third:
            for name in capabilities:
                third.set_capability(name)
            move(second, third, lab.tcp_address('h1'))


def cancelled(lab, _):
    """It is cancelled while memory is on its way, and the guest goes on where it was. Then it moves after all."""
    with Guest(lab, 'h1', 'first') as first:
        with Guest(lab, 'h2', 'second', '-S', '-incoming', f'rdma:{lab.tcp_address("h2")}:{PORT}'):
            writes(first)
            first.ask('migrate', uri=f'rdma:{lab.tcp_address("h2")}:{PORT}')
            first.ask('migrate_cancel')
            until('it is not cancelled', lambda: first.ask('query-migrate').get('status') == 'cancelled', MOVES_SECONDS, first.side)
            require(first.ask('query-status')['status'] == 'running', 'it does not run', first.side)
            writes(first)
        time.sleep(0.5)
        with Guest(lab, 'h2', 'third', '-S', '-incoming', f'rdma:{lab.tcp_address("h2")}:{PORT}') as third:
            move(first, third, lab.tcp_address('h2'))


NEEDS = {'qemu-system-x86': 'qemu-system-x86_64'}
ROWS = [
    Row('qemu migration', NEEDS, functools.partial(there_and_back, ()), seconds=180),
    Row('qemu migration pinned', NEEDS, functools.partial(there_and_back, ('rdma-pin-all',)), seconds=180, daily=False),
    Row('qemu migration cancelled', NEEDS, cancelled, seconds=180, daily=False),
]
