# SPDX-License-Identifier: BSD-3-Clause
"""`uroce-lab pair`: a server on h1, its client on the other hosts once the server listens, and what both say."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

from . import LabError, pairs, places, telemetry
from .lab import hosts_of
from .state import State

CLIENT = '--client'         # between the server's command line and the client's
LOOK_SECONDS = 0.02         # between two looks at programs and their sockets
STOP_SECONDS = 5            # that a program has to end after a signal
READER_SECONDS = 1          # for the rest of a dead program's output
NOT_STARTED = 'was not started'
streams = threading.Lock()  # lines of several programs stay whole


def family(pid):
    """@return `pid` and the processes that descend from it."""
    found, at = [pid], 0
    while at < len(found):
        with contextlib.suppress(OSError):
            for task in os.listdir(f'/proc/{found[at]}/task'):
                with contextlib.suppress(OSError), open(f'/proc/{found[at]}/task/{task}/children', encoding='ascii') as f:
                    found += [int(child) for child in f.read().split()]
        at += 1
    return found


def own_sockets(pid):
    """@return the inodes of the sockets that process `pid` has open, as text."""
    found = set()
    with contextlib.suppress(OSError):
        for fd in os.listdir(f'/proc/{pid}/fd'):
            with contextlib.suppress(OSError):
                target = os.readlink(f'/proc/{pid}/fd/{fd}')
                if target.startswith('socket:['):
                    found.add(target[len('socket:['):-1])
    return found


def listening_sockets(pid):
    """@return the inodes of all TCP sockets that listen in the network namespace of process `pid`."""
    found = set()
    for table in ('tcp', 'tcp6'):
        with contextlib.suppress(OSError), open(f'/proc/{pid}/net/{table}', encoding='ascii') as f:
            rows = [line.split() for line in f][1:]
            found |= {row[9] for row in rows if row[3] == pairs.TCP_LISTEN}
    return found


class Program:
    """A program on a host of the lab. Each line that it prints appears behind the host's name."""

    def __init__(self, lab, host, arguments, environment):
        self.host, self.arguments = host, arguments
        self.stopped = False
        self.child = subprocess.Popen(lab.command(host, *arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, start_new_session=True, env={**os.environ, **environment})
        self.readers = [threading.Thread(target=self._copy, args=pair, daemon=True)
                        for pair in ((self.child.stdout, sys.stdout), (self.child.stderr, sys.stderr))]
        for reader in self.readers:
            reader.start()

    def _copy(self, source, to):
        # A reader of our output who has gone doesn't stop the program: it would wait for ever with a full pipe.
        for line in source:
            with streams, contextlib.suppress(BrokenPipeError):
                to.write(f'{self.host}: {line.decode(errors="replace").rstrip()}\n')
                to.flush()

    def ended(self):
        return self.child.poll() is not None

    def listens(self):
        """@return whether the program, or a process that it started, listens on a TCP port."""
        return any(own_sockets(pid) & listening_sockets(pid) for pid in family(self.child.pid))

    def signal(self, number):
        """Send a signal to the program and to the processes that it started."""
        if not self.ended():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, number)

    def stop(self):
        """End it: SIGTERM, then SIGKILL."""
        self.stopped = not self.ended()
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(STOP_SECONDS)
                break
        for reader in self.readers:
            reader.join(READER_SECONDS)

    @property
    def status(self):
        """The exit status as a shell gives it."""
        code = self.child.returncode
        return code if code >= 0 else 128 - code

    def outcome(self):
        how = f'status {self.status}'
        if self.child.returncode < 0:
            how = signal.Signals(-self.child.returncode).name
        return f'{self.host}: {" ".join(self.arguments)}: ' + ('stopped, it was still running' if self.stopped else how)


class Listeners:
    """Counts what listens by rdma_cm on a host. Nothing is counted where the daemon has no telemetry."""

    def __init__(self, lab, host):
        self.lab, self.host = lab, lab.hosts[host]
        self.before = self._count()

    def _count(self):
        try:
            return telemetry.ask(self.lab.data, self.host, '/uroce/cm')['listeners']
        except (LabError, KeyError):
            return 0

    def more(self):
        return self._count() > self.before


def command_lines(words):
    """Split PROGRAM [ARGUMENT...] [--client PROGRAM [ARGUMENT...]]. @return the server's words, and the client's or None."""
    if CLIENT not in words:
        return words, None
    at = words.index(CLIENT)
    server, client = words[:at], words[at + 1:]
    if not server or not client:
        raise LabError(f'{CLIENT} stands between two programs: PROGRAM [ARGUMENT...] {CLIENT} PROGRAM [ARGUMENT...]')
    return server, client


def filled(words, values):
    """@return the words with {server}, {rank} and {ranks} replaced."""
    for name, value in values.items():
        words = [word.replace('{' + name + '}', value) for word in words]
    return words


class Run:
    """One run of a program on several hosts."""

    def __init__(self, lab, options):
        self.lab, self.options = lab, options
        self.server, self.client = command_lines(options.program)
        self.names = list(lab.hosts)[:options.hosts]
        self.programs = []

    def start(self, rank):
        address = self.lab.tcp_address(self.names[0])
        words = self.server if rank == 0 or self.client is None else self.client
        values = {'server': address, 'rank': str(rank), 'ranks': str(len(self.names))}
        if rank and self.client is None and not self.options.ranks and not any('{server}' in word for word in words):
            words = [*words, address]
        environment = {'RANK': values['rank'], 'WORLD_SIZE': values['ranks'], 'MASTER_ADDR': address} if self.options.ranks else {}
        self.programs.append(Program(self.lab, self.names[rank], filled(words, values), environment))

    def wait_for_server(self):
        listeners = Listeners(self.lab, self.names[0])
        self.start(0)
        server, end = self.programs[0], time.monotonic() + self.options.wait
        while not server.listens() and not listeners.more():
            if server.ended():
                return
            if time.monotonic() >= end:
                say(f'{server.host}: no port listens after {self.options.wait:g} s; the client starts all the same')
                return
            time.sleep(LOOK_SECONDS)

    def go(self):
        try:
            if not self.options.ranks:
                self.wait_for_server()
                if self.programs[0].ended():
                    return
            while len(self.programs) < len(self.names):
                self.start(len(self.programs))
            self.wait()
        finally:
            for program in self.programs:
                program.stop()

    def wait(self):
        """Until all have ended. Once one of them has failed, or all clients have ended, the others get a little time."""
        end = time.monotonic() + self.options.timeout if self.options.timeout else None
        alone = False
        while not all(program.ended() for program in self.programs):
            failed = any(program.ended() and program.status for program in self.programs)
            clients = self.programs if self.options.ranks else self.programs[1:]
            if not alone and (failed or all(program.ended() for program in clients)):
                alone = True
                limit = time.monotonic() + pairs.GRACE_SECONDS
                end = limit if end is None else min(end, limit)
            if end is not None and time.monotonic() >= end:
                return
            time.sleep(LOOK_SECONDS)

    def report(self):
        """Say how each ended. @return the status of the first that failed; of clients before the server's"""
        for rank, name in enumerate(self.names):
            say(self.programs[rank].outcome() if rank < len(self.programs) else f'{name}: {NOT_STARTED}')
        for program in [*self.programs[1:], *self.programs[:1]]:
            if program.status and not program.stopped:
                return program.status
        # A server that serves for ever is stopped when its clients have ended well.
        clients = self.programs if self.options.ranks else self.programs[1:]
        return 0 if clients and not any(program.stopped for program in clients) and len(self.programs) == len(self.names) else 1


def say(text):
    with streams:
        print(text, file=sys.stderr, flush=True)


def lab_command(*words):
    done = subprocess.run([os.path.join(places.SCRIPTS, 'uroce-lab'), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise LabError(done.stdout.strip().removeprefix('uroce-lab: '))


@contextlib.contextmanager
def lab_of(options):
    """The lab of this name; if there is none, one that is raised for the block."""
    state = State(options.name)
    raised = not os.path.isdir(state.dir)
    if raised:
        wire = ['--wire', 'veth'] if options.hosts > 2 else []
        say(f'uroce-lab: lab {options.name!r} is not up: raising it for this run')
        lab_command('up', '--name', options.name, '--hosts', str(options.hosts), *wire)
    try:
        hosts_of(state.load(), 'all')
        lab = pairs.Lab(options.name)
        if options.hosts > len(lab.hosts):
            raise LabError(f'--hosts {options.hosts}: lab {options.name!r} has {len(lab.hosts)}')
        yield lab
    finally:
        if raised:
            lab_command('down', '--name', options.name)


def run(options):
    if options.hosts < 2:
        raise LabError(f'--hosts {options.hosts}: a pair has at least 2')
    if options.ranks and CLIENT in options.program:
        raise LabError(f'--ranks: all hosts run the same program, there is no {CLIENT}')
    command_lines(options.program)
    with lab_of(options) as lab:
        programs = Run(lab, options)
        try:
            programs.go()
        finally:
            status = programs.report()
    return status
