#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A port on an interface of the kernel. Its link goes down and comes back: what ibv_asyncwatch and ibv_devinfo say, and that traffic goes on."""

import json
import os
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import lab_up, main  # noqa: E402
from uroce_lab import daemon, pairs  # noqa: E402

NAME = f'p{os.getpid()}'
COMMAND = os.path.join(daemon.build_dir(), 'app/uroce/uroce')
INTERFACE = 'roce0'
SECONDS = 20
ROUNDS = 3


class Port(unittest.TestCase):
    def setUp(self):
        up = lab_up('--wire', 'veth', '--pmd', 'af_packet', name=NAME)
        self.lab = up.__enter__()
        self.addCleanup(up.__exit__, None, None, None)

    def link(self, state):
        subprocess.run(['ip', 'netns', 'exec', f'uroce-{NAME}-h1', 'ip', 'link', 'set', INTERFACE, state], check=True)

    def states(self):
        text = self.lab.run('h1', 'ibv_devinfo', '-d', pairs.DEVICE).stdout
        return [line.split()[1] for line in text.splitlines() if 'state:' in line]

    def wait(self, watch, event, count):
        end = time.monotonic() + SECONDS
        while watch.text().count(event) < count and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(watch.text().count(event), count, watch.report() + self.lab.logs())

    def test_events_state_and_traffic(self):
        watch = pairs.Side(self.lab, 'h1', ['ibv_asyncwatch', '-d', pairs.DEVICE])
        self.addCleanup(watch.kill)
        self.wait(watch, 'async event FD', 1)
        self.assertEqual(self.states(), ['PORT_ACTIVE'])
        for number in range(1, ROUNDS + 1):
            self.link('down')
            self.wait(watch, 'IBV_EVENT_PORT_ERR', number)
            self.assertEqual(self.states(), ['PORT_DOWN'])
            self.link('up')
            self.wait(watch, 'IBV_EVENT_PORT_ACTIVE', number)
            self.assertEqual(self.states(), ['PORT_ACTIVE'])
        # The interface has lost its IPv6 address, as it does under any kernel; IPv4 is as before.
        pair = pairs.run_pair(self.lab, ['ibv_rc_pingpong', '-d', pairs.DEVICE, '-g', str(self.lab.gid_index('h1', 4))], SECONDS)
        self.assertTrue(pair.ok, pair.report())

    def test_the_doctor_knows_whose_the_udp_port_is(self):
        done = self.lab.run('h1', COMMAND, '--json', 'doctor')
        checks = {o['check']: o for o in json.loads(done.stdout)}
        self.assertEqual(checks['UDP 4791']['verdict'], 'good', checks)
        self.assertIn('the daemon has it', checks['UDP 4791']['text'])


if __name__ == '__main__':
    sys.exit(main())
