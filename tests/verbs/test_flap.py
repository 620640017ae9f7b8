#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Links that go down and come back again and again while programs send, and daemons that end and start again.

  tests/verbs/test_flap.py                a link that flaps for 20 seconds
  tests/verbs/test_flap.py --seconds N    N seconds
  tests/verbs/test_flap.py --long         10 minutes, and more restarts and removals

What arrives is what was sent, programs and telemetry are told of each change, and nothing is left behind in a daemon.
"""

import contextlib
import ctypes
import fcntl
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import lab_up, main  # noqa: E402
from test_kill import footprint  # noqa: E402
from uroce_lab import daemon, pairs  # noqa: E402
from uroce_lab.telemetry import ask  # noqa: E402

NAME = f'f{os.getpid()}'
LONG = '--long' in sys.argv
FLAP_SECONDS = 600 if LONG else 20
if '--seconds' in sys.argv:
    at = sys.argv.index('--seconds')
    FLAP_SECONDS = int(sys.argv[at + 1])
    del sys.argv[at:at + 2]
PERIOD_SECONDS, DOWN_SECONDS = 0.1, 0.02
# A QP of verify (timeout 16, 7 retries) sends again when it has had no answer for 0.27, 0.8, 1.9, 2.9, 4.0, 5.1 and 6.2 s, and gives up after 7.2: where
# sessions compete, the kernel may keep an engine from its core for two seconds. A busy machine keeps the link down for longer than DOWN_SECONDS, so it then
# stays up UP_TIMES as long: four of five retries find it up. If it was down for LONGEST_DOWN_SECONDS at a time, at most three of them do, and they and their
# answers wait for a core as well. Then a QP may give up.
TIMEOUT = '16'
UP_TIMES = 4
LONGEST_DOWN_SECONDS = 3
RESTARTS = 40 if LONG else 2
REMOVALS = 100 if LONG else 2
VERIFY = os.path.join(daemon.build_dir(), 'tests/verbs/verify')
VERIFY_QPS = 4              # without -q
PINGPONG_PORT = 18600
INTERFACE = 'roce0'
PAIR_SECONDS = 60
GAVE_UP = 'transport retry counter exceeded'
CHANGE_SECONDS = 20         # until a program is told
# Of a daemon, after all rounds. QP numbers and keys are random, so each object may touch a page of their tables that none has touched; after some hundred rounds few are left.
GROWTH_KB = 8192 if LONG else 4096
GROWTH_HEAP = 256 << 10     # bytes in use: what leaks is here, exactly
GROWTH_MAPPINGS = 8         # an arena of malloc for another thread has two
GROWTH_BUFFERS = 64
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1      # linux/sockios.h, linux/if.h; Python has no names for them
IFREQ = struct.Struct('16sh14x')


class Interface:
    """The lab's interface in a namespace. It is set up and down without ip(8), whose start takes time while it is down."""

    def __init__(self, namespace):
        opening = threading.Thread(target=self._open, args=(namespace,))
        opening.start()
        opening.join()
        self.name, self.flags = IFREQ.unpack(fcntl.ioctl(self.socket, SIOCGIFFLAGS, IFREQ.pack(INTERFACE.encode(), 0)))

    def _open(self, namespace):
        """In a thread of its own, which alone changes its namespace."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f'/run/netns/{namespace}', 'rb') as f:
            if libc.setns(f.fileno(), 0) != 0:
                raise OSError(ctypes.get_errno(), f'setns to {namespace}')
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def set_up(self, up):
        fcntl.ioctl(self.socket, SIOCSIFFLAGS, IFREQ.pack(self.name, self.flags | IFF_UP if up else self.flags & ~IFF_UP))


class Flap(unittest.TestCase):
    options = ()

    def setUp(self):
        up = lab_up(*self.options, name=NAME)
        self.lab = up.__enter__()
        self.addCleanup(up.__exit__, None, None, None)
        self.gid = str(self.lab.gid_index('h1', 4))

    def port(self, host):
        return ask(self.lab.data, self.lab.hosts[host], '/uroce/port,uroce0')

    def wait(self, what, *args):
        end = time.monotonic() + CHANGE_SECONDS
        while not what(*args):
            self.assertLess(time.monotonic(), end, f'{what.__name__}{args}\n{self.lab.logs()}')
            time.sleep(0.02)

    def link_is(self, host, state):
        return self.port(host)['link'] == state

    def watch(self, host):
        side = pairs.Side(self.lab, host, ['ibv_asyncwatch', '-d', pairs.DEVICE])
        self.addCleanup(side.kill)
        self.wait(self.says, side, 'async event FD', 1)
        return side

    @staticmethod
    def says(side, text, times):
        return side.text().count(text) >= times

    def verify(self, *options):
        pair = pairs.run_pair(self.lab, [VERIFY, '-x', self.gid, *options], PAIR_SECONDS)
        self.assertTrue(pair.ok, pair.report() + self.lab.logs())
        for side in (pair.server, pair.client):
            self.assertIn('were right', side.text())

    def state_of(self, host):
        """When no program is left: descriptors, mappings, resident kB, packet buffers and bytes of the heap of a daemon. Objects of programs there are none."""
        self.lab.wait_sessions(host, False)
        for kind in ('qp', 'cq', 'mr'):
            self.assertEqual(ask(self.lab.data, self.lab.hosts[host], f'/uroce/{kind}')['all'], 0, f'{host}: {kind}')
        memory = ask(self.lab.data, self.lab.hosts[host], '/uroce/memory')
        descriptors = self.lab.descriptors(host)
        return (descriptors, *footprint(self.lab.pid(host))[1:], memory['packet_buffers_used'], memory['heap_used'])

    def assert_as_before(self, host, before):
        """As many descriptors; mappings, memory and packet buffers about the same: allocators keep some, and packets are on their way."""
        now = self.state_of(host)
        print(f'{host}: {before} {now}', flush=True)
        self.assertEqual(now[0], before[0], f'{host}: descriptors')
        self.assertLessEqual(now[1], before[1] + GROWTH_MAPPINGS, f'{host}: mappings')
        self.assertLess(now[2] - before[2], GROWTH_KB, f'{host}: kB')
        self.assertLessEqual(now[3], before[3] + GROWTH_BUFFERS, f'{host}: packet buffers')
        self.assertLessEqual(now[4], before[4] + GROWTH_HEAP, f'{host}: bytes of the heap')


class Veth(Flap):
    options = ('--wire', 'veth', '--pmd', 'af_packet')

    def link(self, *words):
        subprocess.run(['ip', '-n', f'uroce-{NAME}-h1', 'link', *words], check=True)

    def flap(self, until):
        """@return how often."""
        times = 0
        interface = Interface(f'uroce-{NAME}-h1')
        self.addCleanup(interface.socket.close)
        while (began := time.monotonic()) < until:
            with self.still:
                down = time.monotonic()
                interface.set_up(False)
                time.sleep(DOWN_SECONDS)
                interface.set_up(True)
                down = time.monotonic() - down
                self.longest_down = max(self.longest_down, down)
                self.longest_ever = max(self.longest_ever, down)
            time.sleep(max(UP_TIMES * down, began + PERIOD_SECONDS - time.monotonic()))
            times += 1
        return times

    def verify_over_flaps(self, seed):
        """
        What makes connections needs a link; they live on without.
        @return whether every byte was right; False: a QP gave up, and the link was down for too long.
        """
        program = [VERIFY, '-x', self.gid, '-s', str(seed), '-n', '30', '-u', TIMEOUT]
        with self.still:
            # The kernel resolves no address before it has seen the carrier, up to a second after the last flap.
            for host in ('h1', 'h2'):
                self.wait(self.link_is, host, 'up')
            server = pairs.start_server(self.lab, program)
            client = pairs.start_client(self.lab, program)
            # Whoever looks seldom, on a busy machine, may find that all is over.
            self.wait(lambda: (self.has_qps('h1') and self.has_qps('h2')) or any(side.child.poll() is not None for side in (server, client)))
            self.longest_down = 0
        try:
            for side in (server, client):
                side.wait(time.monotonic() + PAIR_SECONDS)
            if any(side.status and GAVE_UP in side.text() for side in (server, client)):
                with self.still:
                    longest = self.longest_down
                print(f'{GAVE_UP}; the link was down for {longest:.2f} s at a time', flush=True)
                if longest > LONGEST_DOWN_SECONDS:
                    return False
            for side in (server, client):
                self.assertEqual(side.status, 0, server.report() + client.report() + self.lab.logs())
                self.assertIn('were right', side.text())
        finally:
            server.kill()
            client.kill()
        return True

    def has_qps(self, host, least=VERIFY_QPS + 1):
        """With that of the ping-pong."""
        qps = ask(self.lab.data, self.lab.hosts[host], '/uroce/qp,state=RTS')
        return qps['all'] >= least

    def pingpong(self):
        """
        One packet is in flight: if it is lost, nothing but its retransmissions is sent. Not ib_send_lat -e: up to perftest 4.5 it takes a
        receive's event for its send's, if the ACK between them was lost, and has no room for the next send.
        """
        program = ['ib_read_lat', '-d', pairs.DEVICE, '-x', self.gid, '-s', '64', '-u', TIMEOUT, '-e', '-n', '100000000']
        pair = pairs.start_server(self.lab, program, PINGPONG_PORT), pairs.start_client(self.lab, program, PINGPONG_PORT)
        for side in pair:
            self.addCleanup(side.kill)
        for host in ('h1', 'h2'):
            self.wait(self.has_qps, host, 1)
        return pair

    def test_bytes_arrive_while_the_link_flaps(self):
        self.still, self.longest_down, self.longest_ever = threading.Lock(), 0, 0
        self.verify()
        time.sleep(1)
        before = {host: self.state_of(host) for host in ('h1', 'h2')}
        watch = self.watch('h1')
        pingpong = self.pingpong()
        counted = []
        end = time.monotonic() + FLAP_SECONDS
        flapping = threading.Thread(target=lambda: counted.append(self.flap(end)))
        flapping.start()
        rounds = whole = 0
        try:
            while time.monotonic() < end:
                whole += self.verify_over_flaps(rounds + 1)
                rounds += 1
        finally:
            flapping.join()
        for host in ('h1', 'h2'):
            self.wait(self.link_is, host, 'up')
        # Both are looked at before one is killed, which ends the other.
        for side in pingpong:
            if self.longest_ever <= LONGEST_DOWN_SECONDS:
                self.assertIsNone(side.child.poll(), side.report() + self.lab.logs())
        for side in pingpong:
            side.kill()
        downs = self.port('h1')['link_downs']
        print(f'{counted[0]} flaps, h1 saw {downs}, h2 {self.port("h2")["link_downs"]}; {rounds} runs of verify, {whole} to the end', flush=True)
        self.assertGreater(whole, 0)
        # The kernel itself reports some of them together: it looks at carriers at most once a second.
        self.assertLessEqual(downs, counted[0])
        self.assertGreater(downs, min(FLAP_SECONDS, counted[0]) // 4)
        for event in ('IBV_EVENT_PORT_ERR', 'IBV_EVENT_PORT_ACTIVE'):
            self.wait(self.says, watch, event, downs)
            self.assertEqual(watch.text().count(event), downs)
        told = re.findall(r'IBV_EVENT_PORT_(ERR|ACTIVE)', watch.text())
        self.assertEqual(told, ['ERR', 'ACTIVE'] * downs)
        self.verify()
        watch.kill()
        for host in ('h1', 'h2'):
            self.assert_as_before(host, before[host])

    def is_removed(self, host):
        return self.port(host)['state'] == 'removed'

    def new_interfaces(self):
        """As the lab has made them, with other MAC addresses."""
        ns = [f'uroce-{NAME}-h{i}' for i in (1, 2)]
        subprocess.run(['ip', 'link', 'add', INTERFACE, 'netns', ns[0], 'mtu', '4200', 'type', 'veth',
                        'peer', 'name', INTERFACE, 'netns', ns[1], 'mtu', '4200'], check=True)
        for i, name in enumerate(ns, 1):
            for words in (['addr', 'add', f'198.18.0.{i}/24'], ['addr', 'add', f'fd00:18::{i}/64', 'nodad'], ['link', 'set', 'up']):
                subprocess.run(['ip', '-n', name, *words, 'dev', INTERFACE], check=True)

    def test_a_deleted_interface_is_a_dead_device_until_there_is_one_again(self):
        index = {host: self.lab.gid_index(host, 6) for host in ('h1', 'h2')}
        before = None
        for _ in range(REMOVALS):
            watches = {host: self.watch(host) for host in ('h1', 'h2')}
            self.link('del', INTERFACE)
            self.wait(self.says, watches['h1'], 'IBV_EVENT_DEVICE_FATAL', 1)
            # The other end of a veth goes with it, so both devices are gone; each daemon goes on and says so.
            for host in ('h1', 'h2'):
                self.wait(self.is_removed, host)
                self.assertEqual(self.port(host)['link'], 'down')
                # It is no device as long as it isn't there.
                self.assertIn('No IB devices found', self.lab.run(host, 'ibv_devinfo').stdout)
            self.new_interfaces()
            for host in ('h1', 'h2'):
                self.wait(self.link_is, host, 'up')
                self.assertEqual(self.lab.gid_index(host, 6), index[host])
                watches[host].kill()
                self.assertNotIn('PORT_ACTIVE', watches[host].text())
            self.verify()
            if before is None:
                before = {host: self.state_of(host) for host in ('h1', 'h2')}
        self.assertTrue(self.lab.whole(), self.lab.logs())
        for host in ('h1', 'h2'):
            self.assertEqual(self.port(host)['returns'], REMOVALS)
            self.assert_as_before(host, before[host])

    def test_an_interface_that_was_moved_away_comes_back(self):
        """With the same MAC address and, usually, the same number."""
        ns = f'uroce-{NAME}-h1'
        self.link('set', INTERFACE, 'netns', f'uroce-{NAME}-h2', 'name', 'elsewhere')
        self.wait(self.is_removed, 'h1')
        subprocess.run(['ip', '-n', f'uroce-{NAME}-h2', 'link', 'set', 'elsewhere', 'netns', ns, 'name', INTERFACE], check=True)
        for words in (['addr', 'add', '198.18.0.1/24'], ['addr', 'add', 'fd00:18::1/64', 'nodad'], ['link', 'set', 'up']):
            subprocess.run(['ip', '-n', ns, *words, 'dev', INTERFACE], check=True)
        self.wait(self.link_is, 'h1', 'up')
        self.verify()


class Memif(Flap):
    options = ('--wire', 'memif')

    def start(self, host):
        # A server that was killed leaves its socket behind, and net_memif doesn't start where there is one.
        with contextlib.suppress(FileNotFoundError):
            if host == 'h1':
                os.unlink(os.path.join(self.lab.data['dir'], 'memif.sock'))
        # The hugepages of one that was killed are not back at once.
        child = daemon.start({**self.lab.data, 'hugepages': False}, self.lab.hosts[host])
        daemon.wait_ready(self.lab.hosts[host], child)
        return child

    def setUp(self):
        super().setUp()
        self.children = {}
        self.addCleanup(self.end_children)

    def end_children(self):
        """Daemons that the test has started are its own children."""
        for child in self.children.values():
            child.terminate()
            child.wait(CHANGE_SECONDS)

    def end_daemon(self, host, how):
        pid = self.lab.pid(host)
        os.kill(pid, how)
        child = self.children.pop(host, None)
        if child:
            child.wait(CHANGE_SECONDS)

    def end_and_come_back(self, dies, stays, how):
        """Without traffic at that moment: net_memif takes its memory away from an engine that is in the middle of a burst."""
        watch = self.watch(stays)
        pid, downs = self.lab.pid(stays), self.port(stays)['link_downs']
        self.end_daemon(dies, how)
        self.wait(self.says, watch, 'IBV_EVENT_PORT_ERR', 1)
        self.assertEqual(self.port(stays)['link'], 'down')
        self.children[dies] = self.start(dies)
        for host in ('h1', 'h2'):
            self.wait(self.link_is, host, 'up')
        self.wait(self.says, watch, 'IBV_EVENT_PORT_ACTIVE', 1)
        self.assertEqual(self.port(stays)['link_downs'], downs + 1)
        self.verify()
        watch.kill()
        self.assertEqual(self.lab.pid(stays), pid)

    def rounds(self, dies, stays):
        self.end_and_come_back(dies, stays, signal.SIGTERM)
        time.sleep(1)
        before = self.state_of(stays)
        for _ in range(RESTARTS):
            self.end_and_come_back(dies, stays, signal.SIGKILL)
        self.assert_as_before(stays, before)

    def test_the_client_ends_and_comes_back(self):
        self.rounds('h2', 'h1')

    def test_the_server_ends_and_comes_back(self):
        """The client's port starts again until its server is there."""
        self.rounds('h1', 'h2')


if __name__ == '__main__':
    sys.argv = [arg for arg in sys.argv if arg != '--long']
    sys.exit(main())
