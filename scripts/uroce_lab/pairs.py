# SPDX-License-Identifier: BSD-3-Clause
"""Debian's verbs programs in pairs: a server on h1, a client on h2, both through `uroce-lab run`.

Used by scripts/quickstart (tour.py) and by tests/verbs.
"""

import atexit
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

from . import LabError, daemon, places
from .state import State

DEVICE = 'uroce0'
TCP_PORT = 18515            # perftest's and the pingpongs' own default
LISTEN_SECONDS = 20         # until a server listens
GRACE_SECONDS = 5           # that the other side has to end after one has failed
TCP_LISTEN = '0A'
# perftest compares the TSC with gettimeofday() for every row it prints, and ends with status 1 where the two don't fit
# (r^2 < 0.9): it lost its CPU between reading one clock and the other. That says nothing about the device.
NO_CLOCK = "Can't produce a report"
CLOCK_TRIES = 3


class Lab:
    """A lab that is up."""

    def __init__(self, name):
        self.name = name
        self.data = State(name).load().data
        self.hosts = {host['name']: host for host in self.data['hosts']}

    def command(self, host, *program):
        return [os.path.join(places.SCRIPTS, 'uroce-lab'), 'run', '--name', self.name, host, *program]

    def tcp_address(self, host):
        """@return the address at which other hosts reach the TCP ports of this one."""
        entry = self.hosts[host]
        return f'198.18.0.{entry["index"]}' if entry['namespace'] else '127.0.0.1'

    def tcp_port(self):
        """@return a TCP port: perftest's default in a namespace, a free one if the hosts share the machine's network."""
        if self.hosts['h1']['namespace']:
            return TCP_PORT
        with socket.create_server(('', 0)) as s:
            return s.getsockname()[1]

    def run(self, host, *program, timeout=30):
        return subprocess.run(self.command(host, *program), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors='replace', timeout=timeout, check=False)

    def gid_index(self, host, family):
        """The index of the host's IPv4 (4) or IPv6 (6) GID as ibv_devinfo lists it."""
        index = self.hosts[host]['index']
        want = f'::ffff:198.18.0.{index}' if family == 4 else f'fd00:18::{index:x}'
        listing = self.run(host, 'ibv_devinfo', '-v', '-d', DEVICE).stdout
        for number, gid in re.findall(r'GID\[\s*(\d+)\]:\s*([0-9a-fA-F:.]+)', listing):
            if gid.rstrip(',').lower() == want:
                return int(number)
        raise LabError(f'ibv_devinfo of {host} lists no GID {want}:\n{listing}')

    def logs(self):
        return ''.join(f'-- {name}: {host["log"]}\n{daemon.log_tail(host)}' for name, host in self.hosts.items())


sides = set()               # running, to be killed by an interrupt


def kill_sides():
    """Kill the programs that an interrupt doesn't reach, because they are in sessions of their own."""
    for side in list(sides):
        side.kill()


atexit.register(kill_sides)


class Side:
    """One program of a pair. Its output goes to a file in the lab's folder, so that it never waits for a reader."""

    def __init__(self, lab, host, program):
        self.host = host
        self.namespace = lab.hosts[host]['namespace']
        self.program = program
        descriptor, self.output = tempfile.mkstemp(prefix=f'{os.path.basename(program[0])}-', dir=lab.data['dir'])
        self.child = subprocess.Popen(lab.command(host, *program), stdin=subprocess.DEVNULL, stdout=descriptor,
                                      stderr=subprocess.STDOUT, start_new_session=True)
        self.timed_out = False
        sides.add(self)
        os.close(descriptor)

    def listens(self, port):
        """Whether a socket in the host's network namespace listens on `port`."""
        return any(state == TCP_LISTEN for state in self._sockets('tcp', port))

    def has_udp(self, port):
        """Whether a UDP socket there is bound to `port`."""
        return any(self._sockets('udp', port))

    def _sockets(self, protocol, port):
        """The states of the sockets that are bound to `port`."""
        if not self._arrived():
            return
        for table in (protocol, protocol + '6'):
            try:
                with open(f'/proc/{self.child.pid}/net/{table}', encoding='ascii') as f:
                    rows = [line.split() for line in f]
            except OSError:
                continue
            yield from (row[3] for row in rows[1:] if int(row[1].rpartition(':')[2], 16) == port)

    def _arrived(self):
        """@return whether the process is in the host's namespace already; it starts in ours."""
        if not self.namespace:
            return True
        try:
            return os.path.samestat(os.stat(f'/proc/{self.child.pid}/ns/net'), os.stat(f'/run/netns/{self.namespace}'))
        except OSError:
            return False

    def wait(self, end):
        try:
            self.child.wait(max(0.0, end - time.monotonic()))
            return True
        except subprocess.TimeoutExpired:
            return False

    def kill(self):
        sides.discard(self)
        if self.child.poll() is None:
            self.timed_out = True
            self.child.kill()
            self.child.wait()

    @property
    def status(self):
        return self.child.returncode

    def text(self):
        with open(self.output, encoding='utf-8', errors='replace') as f:
            return f.read()

    def report(self):
        ended = 'was killed after its time was up' if self.timed_out else f'ended with status {self.status}'
        return f'-- {self.host}: {" ".join(self.program)}\n-- {ended}\n{self.text()}'


class Pair:
    """The results of a server and its client."""

    def __init__(self, server, client, seconds):
        self.server = server
        self.client = client
        self.seconds = seconds

    @property
    def ok(self):
        return all(side.status == 0 and not side.timed_out for side in (self.server, self.client))

    def report(self):
        return self.server.report() + self.client.report()


def with_port(program, port):
    return program if port == TCP_PORT else [*program, '-p', str(port)]


def start_server(lab, program, port=TCP_PORT):
    server = Side(lab, 'h1', with_port(program, port))
    end = time.monotonic() + LISTEN_SECONDS
    while not server.listens(port) and server.child.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    return server


def start_client(lab, program, port=TCP_PORT):
    return Side(lab, 'h2', [*with_port(program, port), lab.tcp_address('h1')])


def clock_failed(*sides):
    return any(side.status and NO_CLOCK in side.text() for side in sides)


def run_pair(lab, program, timeout):
    """Run `program` (a list) on h1, then the same with h1's address on h2; each may take `timeout` seconds."""
    for _ in range(CLOCK_TRIES):
        pair = run_pair_once(lab, program, timeout)
        if not clock_failed(pair.server, pair.client):
            break
        print(f'{" ".join(program)}: lost its core while it looked at its clock; once more', flush=True)
    return pair


def run_pair_once(lab, program, timeout):
    start = time.monotonic()
    port = lab.tcp_port()
    server = start_server(lab, program, port)
    client = start_client(lab, program, port)
    end = time.monotonic() + timeout
    try:
        while time.monotonic() < end and (server.child.poll() is None or client.child.poll() is None):
            # If one side has failed, the other may wait for it in vain: give it a little time.
            if server.status or client.status:
                end = min(end, time.monotonic() + GRACE_SECONDS)
            (client if client.child.poll() is None else server).wait(min(end, time.monotonic() + 0.05))
    finally:
        server.kill()
        client.kill()
    return Pair(server, client, time.monotonic() - start)


def rows(text):
    """The result rows of a perftest program, as lists of words: size, iterations, then what it measured."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and words[0].isdigit() and words[1].isdigit():
            found.append(words)
    return found


def result(program, text):
    """@return (size, iterations, result) for a table, or LabError if the program printed none."""
    if program == 'ibv_devinfo':
        state, mtu = re.search(r'state:\s+(\w+)', text), re.search(r'active_mtu:\s+(\d+)', text)
        if state and mtu:
            return '', '', f'{state[1]}, MTU {mtu[1]}'
    elif program.endswith('pingpong'):
        done, size = re.search(r'(\d+) iters in .* = ([0-9.]+) usec/iter', text), re.search(r'(\d+) bytes in', text)
        if done and size:
            return str(int(size[1]) // 2 // int(done[1])), done[1], f'{float(done[2]):.2f} us there and back'
    else:
        table = rows(text)
        if table and program.endswith('_bw'):
            return table[-1][0], table[-1][1], f'{float(table[-1][3]):.1f} MB/s'
        if table and program.endswith('_lat'):
            return table[-1][0], table[-1][1], f'{float(table[-1][4]):.2f} us typical'
    raise LabError(f'{program} printed no result:\n{text}')


def print_table(head, body, out=sys.stdout):
    widths = [max(len(row[i]) for row in [head, *body]) for i in range(len(head))]
    for row in [head, ['-' * w for w in widths], *body]:
        print('  '.join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip(), file=out)
