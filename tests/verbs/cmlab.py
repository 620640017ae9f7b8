# SPDX-License-Identifier: BSD-3-Clause
"""Programs of rdma_cm in pairs, in a lab that a class of tests shares.

A server is ready when the daemon counts its listener: rdma_cm has no TCP port to look at.
"""

import time
import unittest

from labs import lab_up
from uroce_lab import pairs
from uroce_lab.telemetry import ask

IPV4, IPV6 = '198.18.0.1', 'fd00:18::1'


class CmTest(unittest.TestCase):
    NAME = None
    OPTIONS = ()
    LISTEN_SECONDS = 20
    PAIR_SECONDS = 60

    @classmethod
    def setUpClass(cls):
        cls.up = lab_up(*cls.OPTIONS, name=cls.NAME)
        cls.lab = cls.up.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.up.__exit__(None, None, None)

    def tearDown(self):
        self.assertTrue(self.lab.whole(), 'a daemon ended:\n' + self.lab.logs())

    def cm(self, host):
        return ask(self.lab.data, self.lab.hosts[host], '/uroce/cm')

    def until(self, what, condition, seconds=None):
        end = time.monotonic() + (seconds or self.LISTEN_SECONDS)
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)

    def server(self, *program, listens=None):
        """Start it; `listens` says whether it is ready, by default whether there is a listener on h1."""
        # That of a server that was killed a moment ago may still be there.
        self.until('a listener is left', lambda: self.cm('h1')['listeners'] == 0)
        side = pairs.Side(self.lab, 'h1', list(program))
        ready = listens or (lambda _: self.cm('h1')['listeners'] > 0)
        self.until(' '.join(program) + ' does not listen', lambda: ready(side) or side.child.poll() is not None)
        return side

    def pair(self, server, client, expect_server=True, listens=None):
        """Run both to their ends, status 0. A server that goes on for ever is not expected to end, and is killed."""
        with self.subTest(client=client):
            one = self.server(*server.split(), listens=listens)
            two = pairs.Side(self.lab, 'h2', client.split())
            try:
                end = time.monotonic() + self.PAIR_SECONDS
                two.wait(end)
                if expect_server:
                    one.wait(end)
            finally:
                one.kill()
                two.kill()
            report = one.report() + two.report() + self.lab.logs()
            self.assertEqual(two.status, 0, report)
            if expect_server:
                self.assertEqual(one.status, 0, report)
            return one, two
