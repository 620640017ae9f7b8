# SPDX-License-Identifier: BSD-3-Clause
"""What `uroce-lab soak` does to programs: which faults a seed draws, and whether programs ended as they should under them.

Nothing here touches a lab.
"""

import math
import random
import signal

SERVER, CLIENT = 'h1', 'h2'
CRASHES = (signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGSYS)

# Settings of docs/faults.md: (key, lowest, highest, digits). RC with the usual retry counts survives the highest of all of them together.
WIRE = {
    'loss': (('loss', 0.001, 0.02, 4),),
    'reorder': (('reorder', 0.005, 0.1, 4), ('gap', 20, 500, 0)),
    'duplicate': (('dup', 0.005, 0.1, 4),),
    'corrupt': (('corrupt', 0.001, 0.02, 4),),
    'delay': (('delay', 10, 1000, 0),),
}
FLAP = 'flap'
FLAP_AFTER_MS, FLAP_MS = (1, 100), (50, 150)
RESTART = 'restart'
RESTART_AFTER_MS = (1, 1000)
# The n-th call has the fault: n is at most this.
VERBS = {'reg-fail': 8, 'send-error': 1000, 'qp-error': 1000, 'recv-error': 1000, 'device-fatal': 1000, 'late-completion': 1000}
# These excuse an error at either end.
ERRORS = tuple(name for name in VERBS if name != 'late-completion')
NAMES = (*WIRE, FLAP, *VERBS, RESTART)


class Draw:
    """Random numbers of a seed for one purpose: they don't depend on what else is drawn."""

    def __init__(self, seed, purpose):
        # Only random() is promised to give the same numbers in all versions of Python.
        self.next = random.Random(f'{seed} {purpose}').random

    def between(self, low, high):
        """Small numbers are as likely as great ones: the logarithm is uniform."""
        return low * math.exp(self.next() * math.log(high / low))

    def whole(self, low, high):
        return min(high, int(self.between(low, high + 1)))

    def one_of(self, choices):
        return choices[int(self.next() * len(choices))]


class Plan:
    """The faults of one run."""

    def __init__(self, seed=None, names=()):
        self.seed, self.names = seed, []
        self.settings = ''      # of the wire, for both hosts; '': it is left alone
        self.flap = None        # (ms after the first packets, ms)
        self.restart = None     # (the host whose daemon, ms after the first packets)
        self.host, self.verbs = None, None
        if seed is not None:
            self._draw(names)

    def _draw(self, names):
        wire = [name for name in NAMES if name in names and name not in VERBS]
        verbs = [name for name in NAMES if name in names and name in VERBS]
        choice = Draw(self.seed, 'choice')
        chosen = [name for name in wire if Draw(self.seed, f'whether {name}').next() < 0.5]
        if verbs and (not chosen or choice.next() < 0.5):
            # One is enough: most programs end then.
            chosen.append(choice.one_of(verbs))
        self.names = chosen or [choice.one_of(wire)]
        settings = []
        for name in self.names:
            draw = Draw(self.seed, name)
            if name in WIRE:
                settings += [f'{key}={round(draw.between(low, high), digits or None)}' for key, low, high, digits in WIRE[name]]
            elif name == FLAP:
                self.flap = draw.whole(*FLAP_AFTER_MS), draw.whole(*FLAP_MS)
            elif name == RESTART:
                self.restart = draw.one_of((SERVER, CLIENT)), draw.whole(*RESTART_AFTER_MS)
            else:
                self.host = draw.one_of((SERVER, CLIENT))
                self.verbs = f'{name}={draw.whole(1, VERBS[name])}'
        if any(name not in VERBS for name in self.names):
            self.settings = ','.join([*settings, f'seed={self.seed}'])

    def text(self):
        """For the user."""
        wire = self.settings.rpartition(',')[0]     # without its seed, which is ours
        parts = [wire] if wire else []
        if self.flap:
            parts.append('flap of {1} ms after {0} ms'.format(*self.flap))
        if self.restart:
            parts.append('restart of {0} after {1} ms'.format(*self.restart))
        if self.verbs:
            parts.append(f'{self.verbs} on {self.host}')
        return '; '.join(parts) or 'no faults'


class End:
    """
    How a program ended: its return code as of subprocess, None if it had to be stopped or was not started. It is `hit` if a fault of its verbs
    has happened that may make it fail.
    """

    def __init__(self, host, code, *, hit=False, started=True):
        self.host, self.code, self.hit, self.started = host, code, hit, started

    @property
    def stopped(self):
        return self.started and self.code is None

    @property
    def crash(self):
        """The name of the signal that killed it, also as a shell tells it, else None."""
        if self.code is None:
            return None
        number = -self.code if self.code < 0 else self.code - 128
        if self.code >= 0 and number not in CRASHES:
            return None
        names = {int(known): known.name for known in signal.Signals}
        return names.get(number, f'signal {number}')

    @property
    def failed(self):
        return bool(self.code)

    def text(self):
        if not self.started:
            return f'{self.host} was not started'
        if self.stopped:
            return f'{self.host} was stopped'
        return f'{self.host} {self.crash}' if self.crash else f'{self.host} status {self.code}'


def judge(ends, serves):
    """
    What is wrong with how the programs ended.

    @param ends    of the server and of its client
    @param serves  the server didn't end without faults either: it serves for ever
    @return what is wrong, in words; empty: nothing
    """
    server = ends[0]
    hit = any(end.hit for end in ends)
    failed = any(end.failed for end in ends)
    client_ended = all(end.code == 0 for end in ends[1:])
    wrong = [f'{end.host} crashed: {end.crash}' for end in ends if end.crash]
    for end in ends:
        if end.stopped and end.hit and not (end is server and serves):
            wrong.append(f'{end.host} hangs: it still ran when it had to be stopped, after a fault of its own verbs')
    # Whoever is left when its peer has failed may wait for ever: an RC QP that only receives isn't told. Nor is it the one to blame
    # if the peer hangs.
    if not failed and not wrong:
        for end in ends:
            if end.stopped and not (end is server and serves and client_ended):
                wrong.append(f'{end.host} hangs: it still ran when it had to be stopped, and no fault has hit its verbs')
            elif not end.started:
                wrong.append(f'{end.host} was not started: its server ended before it listened')
    if not hit:
        wrong += [f'{end.host} ended with status {end.code}, and no fault has hit any verbs: the transport should have recovered'
                  for end in ends if end.failed and not end.crash]
    return wrong
