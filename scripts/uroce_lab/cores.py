# SPDX-License-Identifier: BSD-3-Clause
"""Whether the threads that poll had enough cores while something was measured."""

import os

from .telemetry import ask

PROGRAMS = 2                # of a pair: server and client


def text(pollers, cores, late_turns):
    """@return one line for people, or '' if each poller had a core. lib/base/cores.c prints the same."""
    if pollers <= cores and not late_turns:
        return ''
    return f'{count(pollers, "poller")} on {count(cores, "core")}, {count(late_turns, "late turn")}: ' \
           'the figures suffer from threads that wait for a core'


def count(number, what):
    return f'{number} {what}{"" if number == 1 else "s"}'


def loops(lab):
    """The threads of a lab's engines that poll. @p lab is its description; those of one process take turns, and count as one."""
    return 1 if lab['one_process'] else len(lab['hosts']) * lab['engines']


class Watch:
    """What the engines of a lab say about their cores between two moments."""

    def __init__(self, lab):
        self.lab = lab
        self.before = self._late_turns()

    def _late_turns(self):
        """Late turns of all loops so far; 0 for daemons without a telemetry socket."""
        by_host = [sum(ask(self.lab, host, f'/uroce/engine,{i}')['load']['late_turns'] for i in range(self.lab['engines']))
                   for host in self.lab['hosts'] if host['telemetry']]
        # Engines that share a loop are late together.
        return (max if self.lab['one_process'] else sum)(by_host or [0])

    def figures(self, programs=PROGRAMS):
        """@return pollers, cores and the late turns since the beginning, while `programs` programs polled"""
        return loops(self.lab) + programs, len(os.sched_getaffinity(0)), self._late_turns() - self.before

    def text(self, programs=PROGRAMS):
        return text(*self.figures(programs))
