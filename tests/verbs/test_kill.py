#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""kill -9 of a program in the middle of ib_write_bw, again and again.

  tests/verbs/test_kill.py            30 times, three quarters of a minute
  tests/verbs/test_kill.py --long     100 times

The daemons go on and give back what the program had, and the program at the other end is told.
"""

import concurrent.futures
import glob
import os
import random
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import lab_up, main  # noqa: E402
from uroce_lab import pairs  # noqa: E402

NAME = f'k{os.getpid()}'
ROUNDS = int(os.environ.get('UROCE_KILL_ROUNDS', '100' if '--long' in sys.argv else '30'))
AT_ONCE = 2                 # pairs; most of a round is waiting
SEED = int(os.environ.get('UROCE_SEED', '1'))
# A dead peer is found after some 28 ack timeouts, here of 16 ms: half a second.
PROGRAM = ['ib_write_bw', '-d', pairs.DEVICE, '-q', '4', '-s', '65536', '-D', '60', '-u', '12']
PEER_SECONDS = 30           # for the survivor to notice, and for its clean-up
MEET_SECONDS = 30           # for the two to meet over TCP
BEFORE_TRAFFIC_SECONDS = 1.0    # ib_write_bw sleeps for a second then
SETTLE_SECONDS = 10         # for the daemons to have given everything back
GROWTH_KB = 4096            # what the resident memory of a daemon may differ by after all rounds


def footprint(pid):
    """Descriptors, mappings and resident kB of a daemon."""
    with open(f'/proc/{pid}/maps', encoding='utf-8') as f:
        mappings = sum(1 for _ in f)
    with open(f'/proc/{pid}/status', encoding='utf-8') as f:
        resident = next(int(line.split()[1]) for line in f if line.startswith('VmRSS:'))
    return len(glob.glob(f'/proc/{pid}/fd/*')), mappings, resident


class Kill(unittest.TestCase):
    def setUp(self):
        up = lab_up(name=NAME)
        self.lab = up.__enter__()
        self.addCleanup(up.__exit__, None, None, None)
        self.gid = str(self.lab.gid_index('h1', 4))

    def run_and_kill(self, lane, victim, seconds, early=False):
        """@return the side that was left; None if it had no peer yet and was killed as well"""
        program = [*PROGRAM, '-x', self.gid]
        port = self.lab.tcp_port()
        if self.lab.hosts['h1']['namespace']:
            port += lane
        server = pairs.start_server(self.lab, program, port)
        client = pairs.start_client(self.lab, program, port)
        dead, left = (server, client) if victim == 'server' else (client, server)
        try:
            if not early:
                self.wait_until_met(server, port)
                time.sleep(BEFORE_TRAFFIC_SECONDS)
            time.sleep(seconds)
            self.assertIsNone(dead.child.poll(), 'it ended before it was killed:\n' + server.report() + client.report())
            dead.child.kill()
            dead.child.wait()
            if left is server and server.listens(port):
                return None
            left.wait(time.monotonic() + PEER_SECONDS)
            self.assertIsNotNone(left.child.poll(), 'the peer was not told:\n' + left.report() + self.lab.logs())
        finally:
            server.kill()
            client.kill()
        return left

    @staticmethod
    def wait_until_met(server, port):
        """perftest's server closes its listening socket when the client has connected."""
        end = time.monotonic() + MEET_SECONDS
        while server.listens(port) and time.monotonic() < end:
            time.sleep(0.005)

    def settle(self, before):
        """@return the daemons' footprints when they are as before, or after a time the last ones"""
        end = time.monotonic() + SETTLE_SECONDS
        while True:
            now = [footprint(self.lab.pid(host)) for host in ('h1', 'h2')]
            same = all(n[:2] == b[:2] and n[2] - b[2] < GROWTH_KB for n, b in zip(now, before))
            if same or time.monotonic() > end:
                return same, now
            time.sleep(0.1)

    def rounds(self, lane):
        """A part of the rounds. @return how many clients saw an error completion."""
        told = 0
        choices = random.Random(SEED * AT_ONCE + lane)
        for number in range(lane, ROUNDS, AT_ONCE):
            victim, seconds = choices.choice(('client', 'server')), choices.uniform(0, 0.5)
            left = self.run_and_kill(lane, victim, seconds, early=number // AT_ONCE % 4 == 0)
            if not left:
                continue
            self.assertNotEqual(left.status, 0,
                                f'round {number}: the peer of a dead program ended well:\n{left.report()}')
            told += victim == 'server' and 'Failed status' in left.text()
            self.assertTrue(self.lab.whole(), f'round {number} (seed {SEED}): a daemon ended\n{self.lab.logs()}')
            if number % 10 == 0:
                print(f'{number} of {ROUNDS} killed', flush=True)
        return told

    def test_daemons_go_on_peers_are_told_and_nothing_stays(self):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as lanes:
            # What is allocated once, lazily, is there after these.
            for victim in ('client', 'server'):
                list(lanes.map(lambda lane, victim=victim: self.run_and_kill(lane, victim, 0.2), range(AT_ONCE)))
            time.sleep(1)
            before = [footprint(self.lab.pid(host)) for host in ('h1', 'h2')]
            told = sum(lanes.map(self.rounds, range(AT_ONCE)))
        self.assertGreater(told, 0, 'no client ever saw an error completion')
        same, now = self.settle(before)
        self.assertTrue(same, f'descriptors, mappings, kB were {before}, now {now}')
        pair = pairs.run_pair(self.lab, ['ib_write_bw', '-d', pairs.DEVICE, '-x', self.gid], 60)
        self.assertTrue(pair.ok, pair.report())


if __name__ == '__main__':
    sys.exit(main([word for word in sys.argv if word != '--long']))
