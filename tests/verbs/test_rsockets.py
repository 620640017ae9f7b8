#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""rsockets: Debian's programs between two hosts, its preload library, peers that die and ports that nobody listens on.

  tests/verbs/test_rsockets.py          all that scripts/test has time for
  tests/verbs/test_rsockets.py --all    rstream's own measurements as well, every size, in every way: minutes
"""

import filecmp
import glob
import os
import re
import shutil
import signal
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from cmlab import IPV4, IPV6, CmTest  # noqa: E402
from labs import lab_command, main  # noqa: E402
from uroce_lab import pairs  # noqa: E402

MANY = '--all' in sys.argv
PRELOAD = glob.glob('/usr/lib/*/rsocket/librspreload.so')
RSTREAM_PORT = 7471
UDPONG_PORT = 7174
HEARD_SECONDS = 5           # until a peer's end is known
COPIED_BYTES = 3_000_000
MEASURED_SECONDS = 900      # for all of rstream's sizes
ROWS, ALL_ROWS = 8, 66      # it prints
WAYS = ('-T b', '', '-T a', '-T a -T b', '-T r', '-T v -T b')


class Rsockets(CmTest):
    @classmethod
    def setUpClass(cls):
        if not shutil.which('rstream'):
            raise unittest.SkipTest('rdmacm-utils is not installed')
        super().setUpClass()

    def both(self, program, address=IPV4, **how):
        return self.pair(f'{program} -b {address}', f'{program} -s {address}', **how)

    def nothing_is_left(self):
        self.until('connections are left', lambda: self.cm('h1')['ids'] == 0 and self.cm('h2')['ids'] == 0)

    def datagrams(self, address, options):
        """udpong's server goes on for ever; it is ready when its UDP socket is bound."""
        _, client = self.pair(f'udpong -b {address}', f'udpong {options} -s {address}', expect_server=False,
                              listens=lambda side: side.has_udp(UDPONG_PORT))
        self.assertIn('custom', client.text())

    def measures(self, *ways):
        """rstream without sizes: latencies of 64 bytes to 1 MiB (-S all: 6 MiB) on one connection, bandwidths on another."""
        for way in ways:
            start = time.monotonic()
            for side in self.both(f'rstream {way}'):
                rows = re.findall(r'^[\w.]+_(?:lat|bw) ', side.text(), re.M)
                self.assertEqual(len(rows), ALL_ROWS if '-S all' in way else ROWS, side.report())
            print(f'{time.monotonic() - start:5.1f} s  rstream {way}', flush=True)
        self.nothing_is_left()


class OverVeth(Rsockets):
    NAME = f'v{os.getpid()}'
    OPTIONS = ('--wire', 'veth', '--pmd', 'af_packet')
    PAIR_SECONDS = MEASURED_SECONDS if MANY else Rsockets.PAIR_SECONDS

    @unittest.skipUnless(MANY, '--all')
    def test_rstream_measures(self):
        self.measures('-T b', '-T b -S all')

    def test_streams_and_datagrams(self):
        for address in (IPV4, IPV6):
            self.both('rstream -T verify -T blocking -S 30000 -C 20 -I 3', address)
        self.both('riostream -T verify -T blocking -S 4000 -C 5 -I 5')
        self.datagrams(IPV4, '-T echo -T blocking -S 1000 -C 20')
        self.nothing_is_left()


class OverMemif(Rsockets):
    NAME = f'r{os.getpid()}'
    PAIR_SECONDS = MEASURED_SECONDS if MANY else Rsockets.PAIR_SECONDS

    @unittest.skipUnless(MANY, '--all')
    def test_rstream_measures(self):
        self.measures(*WAYS)

    @unittest.skipUnless(MANY, '--all')
    def test_rstream_measures_all_sizes(self):
        self.measures('-T b -S all', '-S all')

    def test_rstream_in_all_its_ways(self):
        for address in (IPV4, IPV6):
            for way in ('async', 'blocking', 'nonblocking', 'resolve'):
                self.both(f'rstream -T verify -T {way} -S 3000 -C 20 -I 5', address)
        self.both('rstream -f ip -T b -T v -S 64 -C 200 -I 5')
        self.both('rstream -k 1 -T b -T v -S 1000 -C 10 -I 20')
        self.nothing_is_left()

    def test_rstream_in_sizes_of_its_own(self):
        """Some of what --all does, with fewer transfers: as it measures latency, then as it measures bandwidth."""
        for size, transfers in ((64, 500), (192, 500), (1536, 200), (49152, 100), (786432, 20), (6 << 20, 5)):
            self.both(f'rstream -T b -S {size} -C 1 -I {transfers}')
            self.both(f'rstream -S {size} -C {transfers} -I 1')
        self.nothing_is_left()

    def test_sizes_that_fit_nothing(self):
        for size, count in ((1, 1000), (63, 100), (2049, 50), (70001, 10), (1 << 20, 3), ((1 << 22) + 1, 1)):
            self.both(f'rstream -T v -T b -S {size} -C {count} -I 2')
        self.both('rstream -T v -T a -B 4096 -i 0 -S 100001 -C 3 -I 2')
        self.both('riostream -T v -T b -S 65537 -C 2 -I 2')

    def test_riostream_writes_where_the_peer_says(self):
        for address in (IPV4, IPV6):
            self.both('riostream -T verify -T blocking -S 4000 -C 5 -I 5', address)
        self.both('riostream -T verify -T async -S 100 -C 5 -I 5')

    def test_datagrams(self):
        if not self.lab.hosts['h1']['namespace']:
            self.skipTest('the kernels of the hosts reach each other only with network namespaces')
        for address in (IPV4, IPV6):
            for way in ('async', 'blocking', 'nonblocking'):
                self.datagrams(address, f'-T {way} -T echo -S 64 -C 50')
                self.datagrams(address, f'-T {way} -S 900 -C 200')
        self.datagrams(IPV4, '-T echo -S 2000 -C 20')

    def test_streams_over_a_wire_that_loses(self):
        lab_command('impair', '--name', self.NAME, 'all', 'loss=0.05')
        self.addCleanup(lab_command, 'impair', '--name', self.NAME, 'all', 'none')
        self.both('rstream -T v -T b -S 20000 -C 20 -I 3')
        self.both('rstream -T v -T b -S 64 -C 2000 -I 2')

    def test_rcopy_copies(self):
        source, target = (os.path.join(self.lab.data['dir'], name) for name in ('source', 'target'))
        with open(source, 'wb') as f:
            f.write(os.urandom(COPIED_BYTES))
        self.pair('rcopy', f'rcopy {source} {IPV4}:{target}', expect_server=False)
        self.assertTrue(filecmp.cmp(source, target, shallow=False))

    def test_a_tcp_program_with_the_preload_library(self):
        if not PRELOAD:
            self.skipTest('librspreload.so is not installed')
        before = self.cm('h1')['cm']['established']
        self.both(f'env LD_PRELOAD={PRELOAD[0]} rstream -T socket -T v -T b -S 5000 -C 20 -I 5')
        self.assertEqual(self.cm('h1')['cm']['established'], before + 1, 'it was TCP')
        if not self.lab.hosts['h1']['namespace']:
            return              # the second kind meets by TCP first
        self.both(f'env RDMAV_FORK_SAFE=1 LD_PRELOAD={PRELOAD[0]} rstream -T fork -T v -T b -S 5000 -C 20 -I 5',
                  listens=lambda side: side.listens(RSTREAM_PORT))
        self.assertEqual(self.cm('h1')['cm']['established'], before + 2, 'it was TCP')
        self.nothing_is_left()

    def test_nobody_listens(self):
        done = self.lab.run('h2', 'rstream', '-T', 'b', '-s', IPV4)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('Connection refused', done.stdout)

    def test_peer_of_a_killed_program_hears_of_it_at_once(self):
        for victim in ('h1', 'h2'):
            program = ['rstream', '-T', 'b', '-S', '64', '-C', '1', '-I', '10000000']
            before = self.cm('h1')['cm']['established']
            sides = {'h1': self.server(*program)}
            sides['h2'] = pairs.Side(self.lab, 'h2', [*program, '-s', IPV4])
            try:
                self.until('no connection', lambda: self.cm('h1')['cm']['established'] > before)
                dead = sides.pop(victim)
                os.killpg(dead.child.pid, signal.SIGKILL)
                dead.child.wait()
                other, = sides.values()
                self.assertTrue(other.wait(time.monotonic() + HEARD_SECONDS), other.report())
            finally:
                for side in sides.values():
                    side.kill()
            self.nothing_is_left()


if __name__ == '__main__':
    sys.exit(main())
