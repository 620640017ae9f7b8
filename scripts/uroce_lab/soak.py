# SPDX-License-Identifier: BSD-3-Clause
"""`uroce-lab soak`: a pair of programs again and again, each time under the faults of another seed, until a run goes wrong."""

import argparse
import collections
import contextlib
import os
import shlex
import sys
import threading
import time

from . import LabError, faults, impair, pair, pairs, telemetry
from .history import Daemon
from .lab import hosts_of, note
from .state import State

VARIABLE = 'UROCE_FAULTS'
SEEDS = 20
SEEDS_MAX = 1000000
SEED_MAX = 10**15
TIMEOUT_SECONDS = 60
RECEIVED = 'received'
TRAFFIC_PACKETS = 4         # that are more than neighbours who ask for each other
KEPT_LINES = 1000           # of what the programs of a run print
ASKED_QPS = 20              # of a host, when a program has to be stopped
IMPAIR = '/uroce/impair,uroce0'
LINK_AWAY = 'loss=1'
# Which counter of the wire tells that a fault happened.
COUNTERS = {'loss': 'lost', 'reorder': 'reordered', 'duplicate': 'duplicated', 'corrupt': 'corrupted', 'delay': 'delayed'}


def lab_can_restart(data):
    """Of net_memif both ends have to be in one process: it doesn't connect to a new daemon."""
    return data['wire'] != 'memif' or data['one_process']


def fault_names(text):
    """For argparse: --faults."""
    names = text.split(',')
    for name in names:
        if name not in faults.NAMES:
            what = f'{name!r}: there is no such fault' if name else 'the name of a fault is empty'
            raise argparse.ArgumentTypeError(f'{what}; give some of {",".join(faults.NAMES)}')
    return [name for name in faults.NAMES if name in names]


def whole(low, high):
    """For argparse: a whole number in a range."""
    def convert(text):
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(high)) and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f'{text!r}: must be a whole number from {low} to {high}')
        return int(text)
    return convert


def seconds(text):
    """For argparse: a time that isn't nothing."""
    with contextlib.suppress(ValueError):
        if 0 < float(text) <= 1e6:
            return float(text)
    raise argparse.ArgumentTypeError(f'{text!r}: must be a number of seconds above 0, at most 1000000')


def add_options(command):
    command.add_argument('--seeds', type=whole(1, SEEDS_MAX), default=SEEDS, metavar='N', help='how many runs (default: %(default)s)')
    command.add_argument('--seed', type=whole(0, SEED_MAX), default=1, metavar='S',
                         help='of the first run; the next has the next seed (default: %(default)s)')
    command.add_argument('--faults', type=fault_names, metavar='NAME,...',
                         help=f'from which a seed chooses (default: all that the lab can do, {",".join(faults.NAMES)})')
    command.add_argument('--wait', type=seconds, default=pairs.LISTEN_SECONDS, metavar='SECONDS',
                         help='how long a server may take until it listens, by TCP or rdma_cm (default: %(default)s)')
    command.add_argument('--timeout', type=seconds, default=TIMEOUT_SECONDS, metavar='SECONDS',
                         help='programs that run longer hang (default: %(default)s)')
    command.add_argument('program', metavar='PROGRAM', nargs=argparse.REMAINDER, help='as of `pair`')
    command.set_defaults(hosts=2, ranks=False)


class Wire:
    """
    The impairment of a lab's hosts, as uroce(1) sets it: at once, and apart from the configuration. It is as it was after the block.
    """

    def __init__(self, lab):
        self.lab = lab
        self.daemons = [Daemon(host) for host in lab.hosts.values()]
        self.before = [self._settings(daemon) for daemon in self.daemons]
        self.now = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for daemon, settings in zip(self.daemons, self.before):
            try:
                self._change(daemon, settings)
            except LabError as e:
                note(f'the impairment of {daemon.host["name"]} is not as it was ({settings or impair.NONE}): {e}')
            daemon.close()

    def reconnect(self):
        """Daemons were restarted: they are as their configuration says."""
        for daemon in self.daemons:
            daemon.close()
        self.lab.data = State(self.lab.name).load().data
        self.lab.hosts = {host['name']: host for host in self.lab.data['hosts']}
        self.daemons = [Daemon(host) for host in self.lab.hosts.values()]
        self.set(self.now or '')

    @staticmethod
    def _settings(daemon):
        with contextlib.suppress(LabError):     # it isn't impaired
            return ','.join(daemon.ask(IMPAIR)['settings'])
        return ''

    @staticmethod
    def _change(daemon, settings):
        daemon.ask(f'{IMPAIR},{settings or impair.NONE}')

    def set(self, settings):
        for daemon in self.daemons:
            self._change(daemon, settings)
        self.now = settings

    def counters(self):
        """@return what was done to packets so far, of all hosts together."""
        total = collections.Counter()
        for daemon in self.daemons:
            seen = daemon.ask(IMPAIR)
            total.update({name: seen[name] for name in (*COUNTERS.values(), RECEIVED)})
        return total


class Run(pair.Run):
    """One run of the pair under a plan's faults."""

    def __init__(self, lab, options, wire, plan):
        super().__init__(lab, options)
        self.wire, self.plan = wire, plan
        self.kept = collections.deque(maxlen=KEPT_LINES)
        self.log = os.path.join(lab.data['dir'], f'soak-{os.getpid()}.log')
        self.over = threading.Event()
        self.flap_lost = 0
        self.restarted = False
        self.done = collections.Counter()   # to packets, as counted by daemons that were restarted
        self.thread_error = None
        self.happened = set()   # names of the plan's faults
        self.waits = []         # what QPs of programs that had to be stopped were waiting for

    def environment(self, host):
        return {VARIABLE: f'{self.plan.verbs},log={self.log}'} if host == self.plan.host else {}

    def go(self):
        if self.plan.settings != self.wire.now:
            # Counters begin anew.
            self.wire.set('')
            if self.plan.settings:
                self.wire.set(self.plan.settings)
        super().go()
        self._look()

    def before_stop(self):
        """Ask the daemons what the QPs of programs that still run are waiting for: a hang, or only a slow wire?"""
        for program in self.programs:
            if program.stopped:
                with contextlib.suppress(LabError, KeyError):
                    self._ask_why(program)

    def _ask_why(self, program):
        pids = pair.family(program.child.pid)
        host = self.lab.hosts[program.host]
        for number in telemetry.ask(self.lab.data, host, '/uroce/qp')['numbers'][:ASKED_QPS]:
            qp = telemetry.ask(self.lab.data, host, f'/uroce/qp,{number}')
            if qp['pid'] in pids:
                self.waits.append(f'{program.host}, QP {number}: {"; ".join(qp["why"])}')

    def wait(self):
        thread = threading.Thread(target=self._meanwhile) if self.plan.flap or self.plan.restart else None
        try:
            if thread:
                thread.start()
            super().wait()
        finally:
            self.over.set()
            if thread:
                thread.join()
        if self.thread_error:
            raise self.thread_error

    def _meanwhile(self):
        """What happens while the programs run."""
        try:
            before = self.wire.counters()[RECEIVED]
            while self.wire.counters()[RECEIVED] < before + TRAFFIC_PACKETS:
                if self.over.wait(pair.LOOK_SECONDS / 2):
                    return
            if self.plan.flap:
                self._flap()
            if self.plan.restart:
                self._restart()
        except LabError as e:
            self.thread_error = e

    def _flap(self):
        after, length = (ms / 1000 for ms in self.plan.flap)
        if self.over.wait(after):
            return
        lost = self.wire.counters()['lost']
        self.wire.set(LINK_AWAY)
        try:
            time.sleep(length)
        finally:
            self.wire.set(self.plan.settings)
        self.flap_lost = self.wire.counters()['lost'] - lost

    def _restart(self):
        host, after = self.plan.restart
        if self.over.wait(after / 1000):
            return
        self.done = self.wire.counters()
        pair.lab_command('restart', '--name', self.lab.name, host)
        self.restarted = not self.over.is_set()
        self.wire.reconnect()

    def _look(self):
        """Which of the faults happened?"""
        if self.plan.settings:
            done = self.wire.counters() + self.done
            done['lost'] -= self.flap_lost
            self.happened = {name for name in self.plan.names if done[COUNTERS.get(name)]}
        if self.flap_lost:
            self.happened.add(faults.FLAP)
        if self.restarted:
            self.happened.add(faults.RESTART)
        with contextlib.suppress(FileNotFoundError), open(self.log, encoding='ascii', errors='replace') as f:
            os.unlink(self.log)
            self.happened |= {line.split()[1] for line in f if len(line.split()) == 3}

    def ends(self):
        hit = bool(self.happened & set(faults.ERRORS))
        found = [faults.End(program.host, None if program.stopped else program.child.returncode, hit=hit and program.host == self.plan.host)
                 for program in self.programs]
        return found + [faults.End(name, None, started=False) for name in self.names[len(found):]]


class Soak:
    """All runs, and what becomes of them."""

    def __init__(self, lab, options, wire):
        self.lab, self.options, self.wire = lab, options, wire
        self.serves = False
        self.table = {name: collections.Counter() for name in options.faults}

    def once(self, plan):
        """@return (the run, how the programs ended, what is wrong)"""
        run = Run(self.lab, self.options, self.wire, plan)
        wrong = []
        try:
            run.go()
            hosts_of(State(self.lab.name).load(), 'all')
        except LabError as e:
            # A daemon that has ended, above all.
            wrong.append(str(e))
        ends = run.ends()
        return run, ends, wrong or faults.judge(ends, self.serves)

    def without_faults(self):
        """What is wrong then isn't due to faults; and does the server end by itself?"""
        self.serves = True
        run, ends, wrong = self.once(faults.Plan())
        if wrong:
            raise LabError('\n'.join([*run.kept, f'without faults: {"; ".join(wrong)}', 'nothing can be learned from runs with faults: '
                                      'first make it end well by `uroce-lab pair`, or give it more time with --timeout']))
        self.serves = ends[0].stopped
        print(f'without faults: {self.outcome(ends)}: well', flush=True)

    def with_faults(self, seed):
        """@return whether all was well"""
        plan = faults.Plan(seed, self.options.faults)
        run, ends, wrong = self.once(plan)
        failed = any(end.failed or end.stopped and not self.serves for end in ends)
        for name in plan.names:
            self.table[name].update(['runs', *(['happened'] if name in run.happened else []), 'failed' if failed else 'well'])
        if not wrong:
            print(f'seed {seed}: {plan.text()}: {self.outcome(ends)}: {"an error, as expected" if failed else "well"}', flush=True)
            return True
        print('\n'.join(run.kept))
        print(f'seed {seed}: {plan.text()}: {self.outcome(ends)}: WRONG')
        for what in wrong:
            print(f'  {what}')
        for line in run.waits:
            print(f'  {line}')
        print(f'  what happened of these faults: {", ".join(name for name in plan.names if name in run.happened) or "none"}')
        print(f'repeat it: {self.command(seed)}', flush=True)
        return False

    @staticmethod
    def outcome(ends):
        return ', '.join(end.text() + (' (its verbs were hit)' if end.hit else '') for end in ends)

    def command(self, seed):
        o = self.options
        return shlex.join(['uroce-lab', 'soak', '--name', o.name, '--seed', str(seed), '--seeds', '1', '--faults', ','.join(o.faults),
                           '--wait', f'{o.wait:g}', '--timeout', f'{o.timeout:g}', *o.program])

    def summary(self):
        print()
        pairs.print_table(('fault', 'runs', 'happened', 'ended well', 'error, as expected'),
                          [(name, *(str(row[column]) for column in ('runs', 'happened', 'well', 'failed'))) for name, row in self.table.items()])
        print(f'{self.options.seeds} runs, none hung or ended wrongly')


def run(options):
    pair.command_lines(options.program)
    # Ours alone decides what goes wrong.
    os.environ.pop(VARIABLE, None)
    with pair.lab_of(options) as lab, Wire(lab) as wire:
        if options.faults is None:
            options.faults = [name for name in faults.NAMES if name != faults.RESTART or lab_can_restart(lab.data)]
        elif faults.RESTART in options.faults and not lab_can_restart(lab.data):
            raise LabError('restart: a lab over memif can do that if both hosts are in one process: raise it by --one-process, or with --wire veth')
        soak = Soak(lab, options, wire)
        soak.without_faults()
        for seed in range(options.seed, options.seed + options.seeds):
            if not soak.with_faults(seed):
                return 1
        soak.summary()
    sys.stdout.flush()
    return 0
