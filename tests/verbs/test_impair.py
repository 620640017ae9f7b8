#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Bad wires: Debian's programs end with status 0, what `verify` sends arrives as it was, and settings change while both run.

  tests/verbs/test_impair.py            a minute
  tests/verbs/test_impair.py --long     every wire, more sizes, QPs and seeds
"""

import json
import os
import shutil
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

import matrix  # noqa: E402
from labs import lab_command, lab_up, main  # noqa: E402
from schemas import fits  # noqa: E402
from uroce_lab import daemon, pairs  # noqa: E402
from uroce_lab.telemetry import ask  # noqa: E402

NAME = f'm{os.getpid()}'
LONG = '--long' in sys.argv
VERIFY = os.path.join(daemon.build_dir(), 'tests/verbs/verify')
# What is wrong with the wire, and the counter that tells that it was.
WIRES = {'loss=0.01': 'lost', 'loss=0.05': 'lost', 'reorder=0.05': 'reordered', 'dup=0.05': 'duplicated',
         'corrupt=0.01': 'corrupted'}
PROGRAMS = {'ib_write_bw': ['-n 200'], 'ib_read_bw': ['-n 200'], 'ib_send_bw': ['-n 200'], 'ib_atomic_bw': ['-n 1000']}
if LONG:
    PROGRAMS = dict.fromkeys(('ib_write_bw', 'ib_read_bw', 'ib_send_bw'),
                             ['', '-a -n 200', '-q 16 -s 20000', '-b -s 100000 -n 1000'])
    PROGRAMS['ib_atomic_bw'] = ['', '-q 16']
PAIR_SECONDS = 300 if LONG else 40


class OneLab(unittest.TestCase):
    up_options = ()

    @classmethod
    def setUpClass(cls):
        cls.up = lab_up(*cls.up_options, name=NAME)
        cls.lab = cls.up.__enter__()
        cls.gids = {family: str(cls.lab.gid_index('h1', family)) for family in (4, 6)}

    @classmethod
    def tearDownClass(cls):
        cls.up.__exit__(None, None, None)

    def tearDown(self):
        self.assertTrue(self.lab.whole(), 'a daemon ended:\n' + self.lab.logs())

    def impair(self, settings, host='all'):
        done = lab_command('impair', '--name', NAME, host, settings)
        self.assertEqual(done.returncode, 0, done.stdout)

    def counters(self):
        done = lab_command('impair', '--name', NAME, 'all', '--counters', '--json')
        self.assertEqual(done.returncode, 0, done.stdout)
        return fits(json.loads(done.stdout), 'lab-impair')

    def ask(self, host, command):
        return ask(self.lab.data, self.lab.hosts[host], command)

    def runs(self, *command):
        with self.subTest(program=' '.join(command)):
            pair = pairs.run_pair(self.lab, list(command), PAIR_SECONDS)
            self.assertTrue(pair.ok, pair.report() + self.lab.logs())
            return pair

    def verify(self, *options, family=4):
        pair = self.runs(VERIFY, '-x', self.gids[family], *options)
        for side in (pair.server, pair.client):
            self.assertIn('were right', side.text())

    def debian(self, program, options):
        self.runs(program, '-d', pairs.DEVICE, '-x', self.gids[4], *options.split())


class BadWires(OneLab):
    """One lab: its wire gets worse and better while it is up."""

    def over(self, settings):
        self.impair('none')
        self.impair(settings)
        for program, options in PROGRAMS.items():
            for each in options:
                self.debian(program, each)
        seeds = range(1, 11) if LONG else (1,)
        for seed in seeds:
            self.verify('-s', str(seed), family=4)
            self.verify('-s', str(seed + 1000), '-m', '4096' if self.lab.data['mtu'] >= 4200 else '2048', '-q', '8',
                        family=6)
        for host, seen in self.counters().items():
            self.assertEqual(seen['settings'], settings.split(','), host)
            self.assertGreater(seen[WIRES[settings]], 0, f'{host}: {seen}')
            others = {'lost', 'reordered', 'duplicated', 'corrupted'} - {WIRES[settings]}
            self.assertEqual([seen[other] for other in others], [0, 0, 0], f'{host}: {seen}')
            self.assertEqual(seen['received'] + seen['duplicated'],
                             seen['passed'] + seen['lost'] + seen['held_dropped'] + seen['queue_dropped'])

    def test_loss_of_a_hundredth(self):
        self.over('loss=0.01')

    def test_loss_of_a_twentieth(self):
        self.over('loss=0.05')

    def test_reordering(self):
        self.over('reorder=0.05')

    def test_duplicates(self):
        self.over('dup=0.05')

    def test_corruption(self):
        self.over('corrupt=0.01')

    def test_settings_change_under_a_running_program(self):
        self.impair('none')
        server = pairs.start_server(self.lab, [VERIFY, '-n', '120', '-q', '8'])
        client = pairs.start_client(self.lab, [VERIFY, '-n', '120', '-q', '8'])
        changes = 0
        while client.child.poll() is None and changes < 200:
            for settings in ('loss=0.05', 'reorder=0.1,gap=200', 'none', 'dup=0.1,corrupt=0.02', 'delay=100,jitter=50'):
                self.impair(settings, ('h1', 'h2', 'all')[changes % 3])
                changes += 1
        end = time.monotonic() + PAIR_SECONDS
        for side in (server, client):
            self.assertTrue(side.wait(end), 'does not end\n' + side.report() + self.lab.logs())
            self.assertEqual(side.status, 0, side.report())
        self.assertGreater(changes, 5)

    def test_rules_hit_what_they_name(self):
        # RDMA WRITE first, SEND last, READ response middle, acknowledge
        self.impair('none')
        self.impair('rule=drop/opcode=0x06/skip=3/count=7,rule=drop/opcode=0x02/count=5,rule=drop/opcode=0x0e/count=5,'
                    'rule=dup/opcode=0x11/count=9')
        self.verify()
        for host, seen in self.counters().items():
            self.assertEqual(seen['rules'], [7, 5, 5, 9], f'{host}: {seen}')
            self.assertEqual((seen['lost'], seen['duplicated']), (17, 9), f'{host}: {seen}')

    def test_mistakes_change_nothing(self):
        self.impair('loss=0.01,seed=5')
        before = self.ask('h1', '/uroce/config')['reloads']
        for settings, words in (('loss=3', ['loss=3', '0 to 1']), ('gravity=1', ['gravity', 'known are', 'rule']),
                                ('rule=eat', ['rule "eat"', 'drop, dup'])):
            with self.subTest(settings=settings):
                done = lab_command('impair', '--name', NAME, 'h1', settings)
                self.assertEqual(done.returncode, 1)
                for word in ['nothing was changed', *words]:
                    self.assertIn(word, done.stdout)
        for arguments, word in ((['h9', 'loss=0.1'], 'h1, h2'), (['h1'], '--counters'), (['h1', 'none', '--counters'], 'either')):
            done = lab_command('impair', '--name', NAME, *arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(word, done.stdout)
        self.assertEqual(self.ask('h1', '/uroce/impair,uroce0')['settings'], ['loss=0.01', 'seed=5'])
        self.assertEqual(self.ask('h1', '/uroce/config')['reloads'], before)

    def test_a_file_with_a_mistake_is_refused_by_the_running_daemon(self):
        path = os.path.join(self.lab.hosts['h1']['dir'], 'uroced.conf')
        with open(path, encoding='utf-8') as f:
            good = f.read()
        before = self.ask('h1', '/uroce/config')
        with open(path, 'a', encoding='utf-8') as f:
            f.write('cc = dcqcn\ncolour = blue\n')
        os.kill(self.lab.pid('h1'), 1)
        end = time.monotonic() + 10
        while (now := self.ask('h1', '/uroce/config'))['refused'] == before['refused'] and time.monotonic() < end:
            time.sleep(0.02)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(good)
        self.assertEqual(now['reloads'], before['reloads'])
        said = ''.join(now['error'])
        for word in (path, 'colour', 'unknown key', 'impair'):
            self.assertIn(word, said)
        self.assertEqual(self.ask('h1', '/uroce/port,uroce0')['cc'], 'none')


class Telemetry(OneLab):
    up_options = ('--engines', '2')

    def test_two_queues_and_their_engines_are_seen(self):
        self.impair('loss=0.02,dup=0.02')
        self.verify('-q', '8')
        self.assertEqual(self.ask('h1', '/uroce/port'), ['uroce0'])
        self.assertEqual(self.ask('h1', '/uroce/impair'), ['uroce0'])
        self.assertEqual(self.ask('h1', '/uroce/engine'), [0, 1])
        port = self.ask('h1', '/uroce/port,uroce0')
        self.assertEqual((port['link'], port['mtu'], port['queues']), ('up', 4096, 2))
        self.assertGreater(port['net']['rx_arp'], 0)
        for host in ('h1', 'h2'):
            seen = self.counters()[host]
            packets = 0
            for engine in (0, 1):
                now = self.ask(host, f'/uroce/engine,{engine}')
                self.assertGreater(now['load']['busy_cycles'], 0)
                self.assertGreater(now['transport']['rx_packets'], 100, 'an engine without traffic')
                packets += now['load']['rx_packets']
            self.assertLessEqual(packets, seen['passed'])
            self.assertGreater(seen['lost'], 0)
        self.impair('none')
        self.assertEqual(self.ask('h1', '/uroce/impair'), [])

    def test_what_is_not_there_is_named(self):
        for command, words in (('/uroce/port,eth0', ['eth0', 'uroce0']), ('/uroce/engine,9', ["'9'", '0 to 1']),
                               ('/uroce/engine,-1', ['0 to 1']), ('/uroce/impair,x', ['uroce0'])):
            with self.subTest(command=command), self.assertRaises(Exception) as raised:
                self.ask('h1', command)
            for word in words:
                self.assertIn(word, str(raised.exception))

    @unittest.skipUnless(shutil.which('dpdk-telemetry.py'), 'no dpdk-telemetry.py')
    def test_dpdks_own_client(self):
        host = self.lab.hosts['h1']
        done = subprocess.run(['dpdk-telemetry.py', '-f', daemon.prefix(self.lab.data, host)], input='/uroce/engine,0\n',
                              env={**os.environ, 'RUNTIME_DIRECTORY': host['dir']}, capture_output=True, text=True,
                              timeout=30, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('retransmitted_packets', json.loads(done.stdout.splitlines()[-1])['/uroce/engine']['transport'])


if LONG:
    class BadWiresOfTwoEngines(BadWires):
        up_options = ('--engines', '2')

    class BadWiresOfAfPacket(BadWires):
        up_options = matrix.WIRES['af_packet']

    class BadWiresOfAfXdp(BadWires):
        up_options = matrix.WIRES['af_xdp']


if __name__ == '__main__':
    sys.exit(main([word for word in sys.argv if word != '--long']))
