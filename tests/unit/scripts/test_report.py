#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reports: what scripts/bench and uroce-lab make of figures. The figures are invented; a browser looks at the pages if there is one."""

import html.parser
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../..', folder) for folder in ('scripts', 'tests/verbs')]

import schemas  # noqa: E402
from uroce_lab import LabError, bench_report, history, plots, progress, report, sweep  # noqa: E402

BROWSER_SECONDS = 60
VOID = ('meta', 'link', 'br')
MACHINE = {'cpu': 'A CPU <of one kind>', 'cpus': '2', 'virtual': 'virtual machine', 'memory': '24 GiB', 'kernel': 'Linux 6.18'}
RESULTS = {
    'version': 1, 'time': '2026-01-01T00:00:00Z', 'commit': 'abc', 'machine': MACHINE,
    'samples': {'pair write rate': {'ops_per_s': [9e6, 8e6, 9.5e6], 'p99_us': [2.0]}, 'ucx rate': {'ops_per_s': [2e5]},
                'pair write latency': {'median_us': [1.2, 1.3]}, 'pair read bulk': {'GB_per_s': [4]}, 'iperf3 bulk': {'GB_per_s': [1, 2, 3]}},
    'medians': {}, 'skipped': {'testpmd': 'dpdk-testpmd is not installed (package dpdk-dev)'},
    'few_cores': {'pollers': 3, 'cores': 2, 'samples': {'ib_send_lat': {'typical_us': [7.5, 8]}, 'tcp_lat': {'typical_us': [12, 15]}}},
    'sweeps': {'by size': [{'op': op, 'size': size, 'ops_per_s': 1e9 / size, 'GB_per_s': 1} for op in ('write', 'read') for size in (8, 4096)],
               'by QPs': [{'qps': 1, 'ops_per_s': 1e6}, {'qps': 4, 'ops_per_s': 2e6}], 'by engines': [{'engines': 1, 'ops_per_s': 1e6}],
               'latency distribution': {'ib_send_lat': [[0, 5], [0.5, 7], [1, 90]]},
               'by loss': [{'op': 'WRITEs', 'recovery': r, 'loss': loss, 'Gb_per_s': 90} for r in ('go-back-N', 'selective repeat') for loss in (0, 0.01)]},
    'soft_roce': {'kernel': '6.1', 'accelerator': 'tcg', 'cpus': 2, 'samples': {
        'ib_send_lat': {'uroce, one host': [50, 51], 'Soft-RoCE': [200], 'TCP': [150]}, 'ib_send_bw, 8 bytes': {'uroce, two hosts': [1e5], 'Soft-RoCE': [1e4]},
        'ib_write_bw, 64 KiB': {'uroce, one host': [300], 'TCP': [100]}}},
}
PLOTS = {'rate', 'soft-roce', 'size', 'latency', 'loss', 'scaling', 'few-cores'}
COLUMNS = ['seconds', *history.SAMPLED]


def qp(host, number, peer, samples, **more):
    """Samples are (seconds, tx_bytes, losses, srtt_ns)."""
    rows = [[t, sent, 0, sent // 1000, lost, lost, rtt, 64, 1] for t, sent, lost, rtt in samples]
    return {'host': host, 'qpn': number, 'program': 'ib_<b>', 'pid': 7, 'type': 'RC', 'peer': peer, 'peer_qpn': 9, 'samples': rows, **more}


RECORD = {'version': 1, 'interval': 0.1, 'seconds': 2.0, 'columns': COLUMNS, 'problem': None, 'time': 'now', 'program': ['a', 'b'],
          'lab': {'name': 'l', 'wire': 'memif', 'mtu': 4200,
                  'hosts': [{'name': 'h1', 'index': 1, 'impair': ''}, {'name': 'h2', 'index': 2, 'impair': 'loss=0.01'}]},
          'qps': [qp('h1', 5, '198.18.0.2', [(0, 0, 0, 0), (1, 1000, 0, 5000), (2, 5000, 2, 6000)]), qp('h2', 6, 'fd00:18::1', [(0, 0, 0, 0), (2, 10, 0, 9)]),
                  qp('h2', 7, '', [(0, 0, 0, 0), (2, 0, 0, 0)])]}


class Shape(html.parser.HTMLParser):
    """Whether each element of a page ends, and which ids it has."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.wrong = [], [], []

    def handle_starttag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == 'id']
        self.wrong += [f'{name}={value}' for name, value in attrs if name in ('src', 'href', 'xlink:href') and not value.startswith(('#', 'data:'))]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f'</{tag}>')


def needs_matplotlib(case):
    return unittest.skipUnless(importlib.util.find_spec('matplotlib'), f'matplotlib is not installed (package {plots.PACKAGE})')(case)


@needs_matplotlib
class Pages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix='uroce-report-')
        self.addCleanup(shutil.rmtree, self.folder)

    def check(self, path, wanted):
        """The page is whole, has these plots, and needs nothing else."""
        with open(path, encoding='utf-8') as f:
            text = f.read()
        shape = Shape()
        shape.feed(text)
        self.assertEqual((shape.open, shape.wrong), ([], []))
        self.assertEqual(len(shape.ids), len(set(shape.ids)), 'an id is there twice')
        self.assertEqual({name[len('plot-'):] for name in shape.ids if name.startswith('plot-')}, wanted)
        self.assertNotIn('<script', text)
        for name in wanted:
            tree = xml.etree.ElementTree.parse(os.path.join(self.folder, f'{name}.svg')).getroot()
            self.assertTrue(tree.find('{http://www.w3.org/2000/svg}title').text)
        return text

    def test_results(self):
        text = self.check(bench_report.report(RESULTS, self.folder), PLOTS)
        self.assertIn('A CPU &lt;of one kind&gt;', text)
        self.assertIn('dpdk-testpmd is not installed', text)

    def test_results_of_a_short_run(self):
        text = self.check(bench_report.report({'medians': {}, 'samples': {}}, self.folder), set())
        self.assertEqual(text.count('Not measured in this run.'), len(bench_report.PARTS))

    def test_two_results_compared(self):
        new = {**RESULTS, 'samples': {**RESULTS['samples'], 'pair write rate': {'ops_per_s': [4e6], 'p99_us': [1.0]}}, 'machine': {**MACHINE, 'cpus': '4'}}
        path, rows = bench_report.compare(RESULTS, new, self.folder)
        self.assertEqual(rows[0][:2], ('pair write rate', 'ops_per_s'))
        self.assertEqual(rows[-1][1], 'p99_us')
        self.assertIn('two different machines', self.check(path, {'compare'}))
        with self.assertRaisesRegex(LabError, 'no figure in common'):
            bench_report.compare(RESULTS, {'medians': {}, 'samples': {}}, self.folder)

    def test_a_lab(self):
        text = self.check(report.draw(RECORD, self.folder), {'who', 'lab'})
        self.assertIn('ib_&lt;b&gt; (7)', text)
        self.assertIn('What h2 receives is impaired: loss=0.01', text)

    def test_a_lab_in_which_nothing_happened(self):
        self.assertIn('No QP sent anything', self.check(report.draw({**RECORD, 'qps': []}, self.folder), set()))

    def test_in_a_browser(self):
        browser = shutil.which('chromium')
        if browser is None:
            self.skipTest('chromium is not installed')
        for draw, content, name in ((bench_report.report, RESULTS, 'rate'), (report.draw, RECORD, 'lab')):
            path = draw(content, self.folder)
            done = subprocess.run([browser, '--headless', '--no-sandbox', '--disable-gpu', '--enable-logging=stderr', '--virtual-time-budget=2000',
                                   f'--user-data-dir={self.folder}/browser', f'--screenshot={self.folder}/page.png', '--window-size=1000,3000', '--dump-dom',
                                   'file://' + path], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BROWSER_SECONDS, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn('CONSOLE', done.stderr)
            self.assertTrue(re.search(rf'<figure id="plot-{name}"><svg [^>]*role="img"', done.stdout), f'there is no plot {name}')
            self.assertGreater(os.path.getsize(f'{self.folder}/page.png'), 20000, 'an empty page')


class Figures(unittest.TestCase):
    def test_the_schema_of_results(self):
        if not importlib.util.find_spec('jsonschema'):
            self.skipTest('jsonschema is not installed (package python3-jsonschema)')
        import jsonschema
        schemas.fits({**RESULTS, **bench_report.about()}, 'bench')
        with self.assertRaises(jsonschema.ValidationError):
            schemas.fits({**RESULTS, 'more': 1}, 'bench')
        schemas.fits(RECORD, 'lab-history')
        with self.assertRaises(jsonschema.ValidationError):
            schemas.fits({**RECORD, 'columns': 3}, 'lab-history')

    def test_without_matplotlib_the_package_is_named(self):
        with unittest.mock.patch.dict(sys.modules, {'matplotlib': None}), self.assertRaisesRegex(LabError, 'apt-get install python3-matplotlib'):
            plots.need()

    def test_without_git_the_commit_is_unknown(self):
        with unittest.mock.patch.dict(os.environ, {'PATH': '/nowhere'}):
            self.assertEqual(bench_report.about()['commit'], 'unknown')

    def test_files_that_are_no_results(self):
        for wrong, why in (([], 'no results'), ({'a': 1}, 'no results'), ({'medians': {}, 'version': 2}, 'version 2')):
            with self.assertRaisesRegex(LabError, f'f: .*{why}'):
                bench_report.check(wrong, 'f')

    def test_samples_that_overlap_are_the_same(self):
        self.assertEqual(bench_report.verdict([1, 2], [1.5, 3], 1.4), 'same')
        self.assertEqual(bench_report.verdict([1, 2], [3, 4], 1.4), 'better')
        self.assertEqual(bench_report.verdict([1], [0.5], 0.5), 'worse')
        self.assertEqual(bench_report.verdict([1], [1.01], 1.01), 'same')

    def test_latencies_are_better_if_they_are_smaller(self):
        rows = bench_report.compared({'samples': {'a': {'median_us': [2]}}}, {'samples': {'a': {'median_us': [1]}, 'b': {'median_us': [1]}}})
        self.assertEqual(rows, [('a', 'median_us', [2], [1], 2)])

    def test_quantiles(self):
        marks = sweep.quantiles(range(1001))
        self.assertEqual((marks[0], marks[100], marks[-1]), ([0, 0], [0.5, 500], [1.0, 1000]))

    def test_the_tables_of_the_loss_program(self):
        text = 'WRITEs of 64 KiB\n\n| loss | | Gb/s |\n|---|---|---|\n| 0 | selective repeat | 98.7 | | | 0 |\n| 0.0001 | go-back-N | 97.1 | 98 % |\n' \
               '\nREADs of 64 KiB\n\n| 0.01 | go-back-N | 60.3 | 61 |\n\nRound trips that a lost packet costs\n\n| 1 | nothing | 3.0 |\n'
        self.assertEqual([(p['op'], p['loss'], p['recovery'], p['Gb_per_s']) for p in sweep.loss_points(text)],
                         [('WRITEs', 0, 'selective repeat', 98.7), ('WRITEs', 0.0001, 'go-back-N', 97.1), ('READs', 0.01, 'go-back-N', 60.3)])
        with self.assertRaises(LabError):
            sweep.loss_points('nothing')

    def test_rates_of_counters_that_wrap(self):
        one = qp('h1', 1, '', [(0, 0, (1 << 32) - 1, 0), (0.5, 100, 1, 0), (0.5, 100, 1, 0)])
        self.assertEqual(history.rates(one, COLUMNS, 'losses'), ([0.5], [4.0]))
        self.assertEqual(history.growth(one, COLUMNS, 'losses'), 2)
        self.assertEqual(history.growth(one, COLUMNS, 'tx_bytes'), 100)


class Recorded(unittest.TestCase):
    """What the recorder makes of a daemon's answers."""

    def record(self, *looks):
        recorder = history.Recorder([], 0.1)
        answers = iter(looks)
        recorder.daemons = [unittest.mock.Mock(host={'name': 'h1'}, qps=lambda: next(answers))]
        for _ in looks:
            recorder._sample()
        return recorder.history()['qps']

    @staticmethod
    def row(number, sent, peer='', session=1):
        return {'number': number, 'session': session, 'program': 'p', 'pid': 1, 'type': 'RC', 'peer': peer, 'peer_qpn': 0, **dict.fromkeys(history.SAMPLED, 0),
                'tx_bytes': sent}

    def test_what_a_qp_sent_before_does_not_count(self):
        self.assertEqual(history.growth(self.record([self.row(1, 50)], [self.row(1, 70)])[0], COLUMNS, 'tx_bytes'), 20)

    def test_a_new_qp_began_at_nothing(self):
        self.assertEqual(history.growth(self.record([], [self.row(1, 50)])[0], COLUMNS, 'tx_bytes'), 50)

    def test_the_peer_of_a_qp_that_is_gone_is_remembered(self):
        seen = self.record([self.row(1, 0, '198.18.0.2')], [self.row(1, 5)])[0]
        self.assertEqual(seen['peer'], '198.18.0.2')

    def test_a_number_that_is_used_again_is_another_qp(self):
        seen = self.record([self.row(1, 50)], [self.row(1, 70)], [self.row(1, 5)])
        self.assertEqual(sorted(history.growth(qp_, COLUMNS, 'tx_bytes') for qp_ in seen), [5, 20])

    def test_two_programs_after_each_other_are_two(self):
        self.assertEqual(len(self.record([self.row(1, 0)], [self.row(1, 0, session=2)])), 2)


class Terminal(io.StringIO):
    def isatty(self):
        return True


class ProgressLine(unittest.TestCase):
    def test_nothing_on_a_pipe(self):
        out = io.StringIO()
        with progress.Progress(2, out) as shown:
            shown.step('a')
        self.assertEqual(out.getvalue(), '')

    def test_a_terminal_is_left_clean(self):
        out = Terminal()
        with progress.Progress(2, out) as shown:
            shown.step('first')
            shown.step('second')
        said = out.getvalue()
        self.assertIn('1/2 first', said)
        self.assertIn('[##########..........] 2/2 second', said)
        self.assertTrue(said.endswith(' \r'), repr(said))


if __name__ == '__main__':
    unittest.main(verbosity=2)
