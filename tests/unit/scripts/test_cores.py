#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The line that says that there were too few cores (scripts/uroce_lab/cores.py), and the tour that prints it."""

import contextlib
import io
import os
import sys
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../../scripts'))

from uroce_lab import cores, pairs, tour  # noqa: E402

SUFFER = 'the figures suffer from threads that wait for a core'


def lab(one_process=False, engines=1):
    return {'one_process': one_process, 'engines': engines, 'telemetry': False,
            'hosts': [{'name': f'h{i}', 'index': i, 'telemetry': f'socket{i}'} for i in (1, 2)]}


class Telemetry:
    """Daemons that answer with these late turns, by host and engine."""

    def __init__(self, late):
        self.late = late

    def __call__(self, _, host, command):
        return {'load': {'late_turns': self.late[host['name'], int(command.partition(',')[2])]}}


class Line(unittest.TestCase):
    def test_enough_cores_need_no_line(self):
        self.assertEqual(cores.text(4, 4, 0), '')

    def test_more_pollers_than_cores(self):
        self.assertEqual(cores.text(4, 2, 0), f'4 pollers on 2 cores, 0 late turns: {SUFFER}')

    def test_late_turns_alone(self):
        self.assertEqual(cores.text(1, 1, 1), f'1 poller on 1 core, 1 late turn: {SUFFER}')


class Watch(unittest.TestCase):
    def figures(self, description, before, after):
        telemetry = Telemetry(dict(before))
        with unittest.mock.patch.object(cores, 'ask', telemetry), \
             unittest.mock.patch.object(os, 'sched_getaffinity', return_value={0, 1}):
            watch = cores.Watch(description)
            telemetry.late = after
            return watch.figures()

    def test_each_engine_of_each_daemon_polls(self):
        before = {(host, engine): 5 for host in ('h1', 'h2') for engine in (0, 1)}
        after = {key: 5 + i for i, key in enumerate(before)}
        self.assertEqual(self.figures(lab(engines=2), before, after), (6, 2, 0 + 1 + 2 + 3))

    def test_the_engines_of_one_process_share_a_loop(self):
        self.assertEqual(self.figures(lab(one_process=True), {('h1', 0): 7, ('h2', 0): 7}, {('h1', 0): 10, ('h2', 0): 10}), (3, 2, 3))

    def test_a_daemon_without_telemetry_counts_as_a_poller(self):
        description = lab()
        for host in description['hosts']:
            host['telemetry'] = None
        self.assertEqual(self.figures(description, {}, {}), (4, 2, 0))


class Tour(unittest.TestCase):
    """What the quickstart prints at its end."""

    def said(self, late):
        fake = unittest.mock.Mock(data=lab(one_process=True), gid_index=lambda *_: 1,
                                  run=lambda *_: unittest.mock.Mock(returncode=0, stdout=''))
        pair = unittest.mock.Mock(ok=True)
        telemetry = Telemetry({('h1', 0): 0, ('h2', 0): 0})

        def run_pair(*_):
            telemetry.late = {('h1', 0): late, ('h2', 0): late}
            return pair

        out = io.StringIO()
        with unittest.mock.patch.object(pairs, 'Lab', return_value=fake), unittest.mock.patch.object(pairs, 'run_pair', run_pair), \
             unittest.mock.patch.object(pairs, 'result', return_value=('', '', '')), unittest.mock.patch.object(pairs, 'print_table'), \
             unittest.mock.patch.object(cores, 'ask', telemetry), \
             unittest.mock.patch.object(os, 'sched_getaffinity', return_value=set(range(8))), contextlib.redirect_stdout(out):
            tour.tour('lab')
        return out.getvalue()

    def test_late_turns_while_programs_ran_are_told(self):
        self.assertIn(f'\n3 pollers on 8 cores, 12 late turns: {SUFFER}\n', self.said(12))

    def test_no_line_with_enough_cores(self):
        self.assertNotIn('pollers', self.said(0))


if __name__ == '__main__':
    unittest.main(verbosity=2)
