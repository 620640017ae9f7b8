#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""tests/bench/few_cores: what it makes of figures, and of programs that aren't there."""

import importlib.machinery
import importlib.util
import io
import os
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
FILE = os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../bench/few_cores')
loader = importlib.machinery.SourceFileLoader('few_cores', FILE)
few = importlib.util.module_from_spec(importlib.util.spec_from_loader('few_cores', loader))
loader.exec_module(few)


def samples(**values):
    made = few.Samples()
    made.values = {name.replace('_dash_', ' -'): figures for name, figures in values.items()}
    return made


class Judgement(unittest.TestCase):
    def test_both_the_ratio_and_the_limit_must_be_met(self):
        self.assertEqual(few.judge(8, 16, '<=', 0.6, 10), (0.5, '<= 0.6 of TCP, <= 10', True))
        self.assertFalse(few.judge(12, 24, '<=', 0.6, 10)[2])
        self.assertFalse(few.judge(9, 10, '<=', 0.6, 10)[2])
        self.assertTrue(few.judge(2.6, 2, '>=', 1.3, None)[2])

    def test_without_tcp_only_the_limit_counts(self):
        self.assertEqual(few.judge(8, None, '<=', 0.6, 10), (None, '<= 10', True))

    def test_no_target_is_neither_met_nor_missed(self):
        self.assertEqual(few.judge(8, None, '<=', None, None), (None, '', None))


class Table(unittest.TestCase):
    def test_rows_are_medians_with_what_they_lie_between(self):
        body, good = few.table(samples(ib_send_lat={'typical_us': [9, 7, 8], 'p99_us': [30, 20, 25]}, tcp_lat={'typical_us': [16, 15, 17]}))
        self.assertEqual(body[0], ['ib_send_lat, us', '8', '7 to 9', '16', '0.5', '<= 0.6 of TCP, <= 10', 'met'])
        self.assertEqual(len(body), 2)
        self.assertTrue(good)

    def test_one_missed_target_is_enough(self):
        body, good = few.table(samples(ib_send_lat={'typical_us': [11], 'p99_us': [20]}, tcp_lat={'typical_us': [30]}))
        self.assertEqual([row[-1] for row in body], ['MISSED', 'met'])
        self.assertFalse(good)

    def test_rates_of_many_are_compared_with_one_pair(self):
        body, _ = few.table(samples(**{f'{few.MANY} ib_send_bw': {'GB_per_s': [1.5], 'one_GB_per_s': [2.0]}}))
        self.assertEqual(body[0][-2:], ['>= 0.7 of one pair', 'met'])

    def test_every_row_is_of_a_measurement(self):
        names = {*few.MEASUREMENTS, *few.RESTING}
        for _, what, beside, *_ in few.ROWS:
            self.assertIn(what[0], names)
            self.assertIn((beside or what)[0], names)


class Missing(unittest.TestCase):
    def test_a_program_that_is_not_installed_is_named_once_and_its_row_left_out(self):
        made = few.Samples()
        with unittest.mock.patch.dict(os.environ, PATH='/nonexistent'):
            for number in (1, 2):
                for name in ('tcp_lat', 'iperf3', 'ucx rc', 'ucx tcp'):
                    made.take(None, number, name, *few.MEASUREMENTS[name])
        made.values['ib_send_lat'] = {'typical_us': [5]}
        out = io.StringIO()
        self.assertTrue(few.print_table(made, out))
        for program in ('qperf', 'iperf3', 'ucx_perftest'):
            self.assertIn(f'{program} is not installed (package ', out.getvalue())
        self.assertIn('ib_send_lat, us', out.getvalue())
        self.assertNotIn('UCX', out.getvalue())

    def test_a_build_without_tests_is_named(self):
        with self.assertRaisesRegex(few.Missing, 'nowhere/bench_rest is not there'):
            few.Resting(unittest.mock.Mock(rest='/nowhere/bench_rest'))

    def test_a_measurement_that_failed_later_keeps_its_figures(self):
        made, results = few.Samples(), [{'typical_us': 1.0}, few.Failed('gone')]
        for number in (1, 2):
            made.take(None, number, 'ib_send_lat', unittest.mock.Mock(side_effect=[results[number - 1]]))
        self.assertEqual(made.values, {'ib_send_lat': {'typical_us': [1.0]}})
        self.assertEqual(made.skipped, {'ib_send_lat': 'round 2: gone'})


class Outputs(unittest.TestCase):
    """What other programs print."""

    def tcp(self, text):
        return unittest.mock.Mock(ask_tcp=lambda *_: text)

    def test_qperf_in_any_unit(self):
        with unittest.mock.patch.object(few, 'need'):
            for text, us in (('tcp_lat:\n    latency  =  15.6 us\n', 15.6), ('    latency  =  1,234 ns', 1.234), ('latency = 2 ms', 2000)):
                self.assertAlmostEqual(few.tcp_lat(self.tcp(text))['typical_us'], us)
            with self.assertRaises(few.Failed):
                few.tcp_lat(self.tcp('failed to connect'))

    def test_ucx(self):
        text = 'iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw\n20000,1.5,2.5,2.5,3,3,4,4\n'
        self.assertEqual(few.ucx_figures(text), {'typical_us': 1.5, 'average_us': 2.5})
        with self.assertRaises(few.Failed):
            few.ucx_figures('no transport')

    def test_processor_time_without_schedstat_comes_in_ticks(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f'{folder}/stat', 'w', encoding='ascii') as f:
                f.write('1 (a (b) c) S ' + ' '.join(['0'] * 10) + ' 3 4 0')
            self.assertEqual(few.thread_ns(folder), 7 * 1000000000 // os.sysconf('SC_CLK_TCK'))
            with open(f'{folder}/schedstat', 'w', encoding='ascii') as f:
                f.write('12345 6 7\n')
            self.assertEqual(few.thread_ns(folder), 12345)


if __name__ == '__main__':
    unittest.main(verbosity=2)
