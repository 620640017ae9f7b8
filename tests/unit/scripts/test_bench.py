#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/bench says when the engines that it measured had too few cores, and measures what was asked for."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
FILE = os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../../scripts/bench')
loader = importlib.machinery.SourceFileLoader('bench', FILE)
bench = importlib.util.module_from_spec(importlib.util.spec_from_loader('bench', loader))
loader.exec_module(bench)


class Cores(unittest.TestCase):
    def said(self, samples):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            bench.print_cores(samples)
        return out.getvalue()

    def test_late_turns_of_all_rounds_are_added(self):
        said = self.said({'memcpy': {'GB_per_s': [4]},
                          'pair write rate': {'pollers': [2.0, 2.0], 'cores': [2.0, 2.0], 'late_turns': [3.0, 4.0]},
                          'shm write rate': {'pollers': [2.0], 'cores': [2.0], 'late_turns': [1.0]}})
        self.assertEqual(said, 'uroce-perf: 2 pollers on 2 cores, 8 late turns: the figures suffer from threads that wait for a core\n')

    def test_nothing_is_said_of_enough_cores_or_of_baselines_alone(self):
        self.assertEqual(self.said({'pair write rate': {'pollers': [2.0], 'cores': [2.0], 'late_turns': [0.0]}}), '')
        self.assertEqual(self.said({'memcpy': {'GB_per_s': [4]}}), '')


class Only(unittest.TestCase):
    """--only may choose what only a report shows."""

    def measured(self, only, folder):
        with unittest.mock.patch.object(sys, 'argv', ['bench', '--only', only, '--report', folder, '--perf', '/bin/true']):
            options = bench.parse()
        virtual = {'kernel': '6', 'accelerator': 'tcg', 'cpus': 2, 'samples': {'ib_send_lat': {'uroce': [1]}}}
        with unittest.mock.patch.dict(bench.sweep.SWEEPS, {name: lambda *_: [name] for name in bench.sweep.SWEEPS}), \
                unittest.mock.patch.object(bench, 'build_assertions', lambda _: 'off'), \
                unittest.mock.patch.object(bench, 'soft_roce', lambda *_: virtual), contextlib.redirect_stdout(io.StringIO()):
            return bench.measure(options)[0]

    def test_one_of_them_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            results = self.measured('by size', folder)
            self.assertEqual(list(results['sweeps']), ['by size'])
            self.assertNotIn('soft_roce', results)
            self.assertEqual(self.measured('soft_roce', folder)['soft_roce']['cpus'], 2)
            with self.assertRaisesRegex(SystemExit, "nothing is called 'no such thing'"):
                self.measured('no such thing', folder)


if __name__ == '__main__':
    unittest.main(verbosity=2)
