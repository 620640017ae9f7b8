#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce move: QPs of running programs move to and fro between the engines of both hosts: no completion in error, no wrong byte. And `balance = on`: a
hot engine gives QPs away by itself.

  tests/verbs/test_moves.py            half a minute
  tests/verbs/test_moves.py --long     ten times as many moves
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import LAB, TestLab, lab_command, main, raised  # noqa: E402
from schemas import fits  # noqa: E402
from uroce_lab import LabError, daemon, pairs, telemetry  # noqa: E402

UROCE = os.path.join(daemon.build_dir(), 'app/uroce/uroce')
VERIFY = os.path.join(daemon.build_dir(), 'tests/verbs/verify')
LONG = '--long' in sys.argv
MOVES = 2000 if LONG else 200    # under each program
PAUSE = 0.01                     # from one move to the next: an engine that isn't given its core needs longer for one
ENGINES = 2
SECONDS = 150
STAY = 10                        # seconds that a QP stays after a move, BALANCE_STAY_MS of lib/control/core/balance_priv.h
HOT, COOL = 90, 50                # percent: an engine that gives QPs away, and one that takes some, with a margin to BALANCE_HOT and BALANCE_GAP
HOT_SECONDS = 5
HOSTS = ('h1', 'h2')
# An engine of several on shared cores may be without one for more than a second: the kernel divides a core among sessions first, and what a session
# with threads on two of them is due on each changes all the time.
PATIENT = ('-u', '18')
DISORDER = ('out_of_sequence', 'packet_seq_err', 'implied_nak_seq_err', 'retransmitted_packets', 'rx_moving_dropped', 'qps_undrained')


class Moves(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raised.add(f'm{os.getpid()}')
        cls.lab = TestLab(f'm{os.getpid()}', ('--engines', str(ENGINES)))

    @classmethod
    def tearDownClass(cls):
        lab_command('down', '--name', cls.lab.name)
        raised.discard(cls.lab.name)

    def ask(self, host, command):
        return telemetry.ask(self.lab.data, self.lab.hosts[host], command)

    def uroce(self, *args):
        done = subprocess.run([UROCE, '--json', '--lab', self.lab.name, 'h2', *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return json.loads(done.stdout)

    def count(self, names):
        seen = dict.fromkeys(names, 0)
        for host in HOSTS:
            for engine in range(ENGINES):
                counters = self.ask(host, f'/uroce/engine,{engine}')['transport']
                for name in names:
                    seen[name] += counters[name]
        return seen

    def connected(self, host):
        """Numbers of its QPs. Those that only receive stay in RTR."""
        return [number for state in ('RTR', 'RTS') for number in self.ask(host, f'/uroce/qp,state={state}')['numbers']]

    def move_all(self, process, moves):
        """Until so many moves were made or the programs have ended. @return (pauses in ns, the most QPs that moved as one)"""
        pauses, most = [], 0
        while len(pauses) < moves and process.poll() is None:
            for host in HOSTS:
                for number in self.connected(host):
                    try:
                        now = self.ask(host, f'/uroce/qp,{number}')['engine']
                        moved = self.ask(host, f'/uroce/move,{number},{1 - now}')
                    except (LabError, KeyError):
                        continue            # its program has destroyed it
                    self.assertEqual(moved['engine'], 1 - now)
                    pauses.append(moved['pause_ns'])
                    most = max(most, moved['qps'])
                    time.sleep(PAUSE)
        return pauses, most

    def under(self, program, together=1):
        """Move QPs while a pair of programs runs, so many of which move as one. @return what the programs said"""
        before = self.count(DISORDER)
        process = subprocess.Popen([LAB, 'pair', '--name', self.lab.name, *program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        for host in HOSTS:
            self.lab.wait_sessions(host, True)
        pauses, most = self.move_all(process, MOVES)
        said = process.communicate(timeout=SECONDS)[0]
        self.assertEqual(process.returncode, 0, said + self.lab.logs())
        self.assertGreater(len(pauses), 0, said)
        self.assertEqual(most, together)
        after = self.count(DISORDER)
        pauses.sort()
        print(f'{program[0]}: {len(pauses)} moves of {most} QPs at most, pauses of {pauses[0] // 1000} to {pauses[-1] // 1000} us, half of them at most '
              f'{pauses[len(pauses) // 2] // 1000} us;', ', '.join(f'{name} {after[name] - before[name]}' for name in DISORDER))
        self.assertEqual(after['rx_moving_dropped'], before['rx_moving_dropped'])
        self.assertTrue(self.lab.whole())
        return said

    def test_bandwidth(self):
        self.under(['ib_write_bw', '-d', 'uroce0', '-q', '16', *PATIENT, '-D', '60' if LONG else '10'])

    def test_reads(self):
        """Responses of READs are acknowledged by nobody, so nothing tells the one that answers when they have arrived."""
        self.under(['ib_read_bw', '-d', 'uroce0', '-q', '4', *PATIENT, '-D', '60' if LONG else '6'])

    def test_latency(self):
        self.under(['ib_send_lat', '-d', 'uroce0', *PATIENT, '-D', '60' if LONG else '6'])

    def test_srq(self):
        """All QPs of an end, which share an SRQ, move as one."""
        self.under(['ib_send_bw', '-d', 'uroce0', '-q', '8', '--use-srq', '-b', *PATIENT, '-D', '60' if LONG else '10'], 8)

    def test_xrc(self):
        """So do all targets of a domain, with its SRQs. The QPs that send move one by one."""
        self.under(['ib_send_bw', '-d', 'uroce0', '-c', 'XRC', '-q', '4', *PATIENT, '-D', '60' if LONG else '10'], 4)

    def test_every_byte_is_right(self):
        said = self.under([VERIFY, '-n', '8000' if LONG else '800', '-u', '16'])
        self.assertEqual(said.count('were right'), 2, said)

    def test_an_engine_is_left_without_qps(self):
        process = subprocess.Popen([LAB, 'pair', '--name', self.lab.name, 'ib_write_bw', '-d', 'uroce0', '-q', '4', *PATIENT, '-D', '8'],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            end = time.monotonic() + SECONDS
            while len(numbers := self.ask('h2', '/uroce/qp,state=RTS')['numbers']) < 4 and time.monotonic() < end:
                time.sleep(0.1)
            for number in numbers:
                self.assertEqual(fits(self.uroce('move', str(number), '0'), 'move')['engine'], 0)
            self.assertGreater(fits(self.uroce('move', 'show'), 'move')['moved'], 0)
            self.assertEqual([self.ask('h2', f'/uroce/engine,{engine}')['depths']['qps'] for engine in range(ENGINES)], [4, 0])
        finally:
            said = process.communicate(timeout=SECONDS)[0]
        self.assertTrue(process.returncode == 0 or pairs.NO_CLOCK in said, said)

    def balance(self, host, on):
        """Switch it while the daemon runs."""
        path = os.path.join(self.lab.hosts[host]['dir'], 'uroced.conf')
        with open(path, encoding='utf-8') as f:
            lines = [line for line in f.read().splitlines() if not line.startswith('balance')]
        lines.insert(lines.index('[daemon]') + 1, f'balance = {"on" if on else "off"}')
        with open(path, 'w', encoding='utf-8') as f:
            f.write('\n'.join(lines) + '\n')
        before = self.ask(host, '/uroce/config')['reloads']
        os.kill(self.lab.pid(host), signal.SIGHUP)
        end = time.monotonic() + SECONDS
        while self.ask(host, '/uroce/config')['reloads'] == before:
            self.assertLess(time.monotonic(), end, self.lab.logs())
            time.sleep(0.02)

    def busy(self, before):
        """How busy the engines of h2 have been since, in percent, and their counters now"""
        now = [self.ask('h2', f'/uroce/engine,{engine}')['load'] for engine in range(ENGINES)]
        loads = []
        for engine in range(ENGINES):
            busy, idle = (now[engine][name] - before[engine][name] if before else 0 for name in ('busy_cycles', 'idle_cycles'))
            loads.append(100 * busy // max(busy + idle, 1))
        return loads, now

    def test_balance_takes_qps_from_a_hot_engine(self):
        """On cores that engines and programs share, no engine may be hot for long enough: then nothing has to move."""
        qps = 16
        process = subprocess.Popen([LAB, 'pair', '--name', self.lab.name, 'ib_write_bw', '-d', 'uroce0', '-q', str(qps), *PATIENT, '-D', str(3 * STAY)],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        where, hot, loads, seen = {}, 0, [], []
        before = after = fits(self.uroce('move', 'show'), 'move')
        try:
            end = time.monotonic() + SECONDS
            while len(numbers := self.ask('h2', '/uroce/qp,state=RTS')['numbers']) < qps and time.monotonic() < end:
                time.sleep(0.1)
            for host in HOSTS:
                for number in self.ask(host, '/uroce/qp,state=RTS')['numbers']:
                    self.ask(host, f'/uroce/move,{number},0')
            before = self.uroce('move', 'show')
            self.balance('h2', True)
            start = time.monotonic()
            while process.poll() is None:
                loads, seen = self.busy(seen)
                # Three seconds have two whole intervals in them.
                hot = hot + 1 if loads[0] > HOT and loads[1] < COOL and time.monotonic() > start + STAY else 0
                after = self.uroce('move', 'show')
                with contextlib.suppress(LabError):      # the program has ended
                    where = {number: self.ask('h2', f'/uroce/qp,{number}')['engine'] for number in numbers}
                if after['balanced'] > before['balanced'] or hot > HOT_SECONDS:
                    break
                time.sleep(1)
        finally:
            self.balance('h2', False)
            said = process.communicate(timeout=SECONDS)[0]
        moved = after['balanced'] - before['balanced']
        print(f'balance: {moved} moves; {sum(where.values())} of {qps} QPs at engine 1; the engines were busy for {loads} %')
        self.assertTrue(process.returncode == 0 or pairs.NO_CLOCK in said, said)
        self.assertLessEqual(hot, HOT_SECONDS, 'an engine is hot, and nothing has moved')
        self.assertEqual(after['moved'] - before['moved'], moved)
        if moved:
            self.assertGreater(sum(where.values()), 0)
            self.assertIn('balance: QP ', self.lab.logs())


if __name__ == '__main__':
    sys.exit(main([word for word in sys.argv if word != '--long']))
