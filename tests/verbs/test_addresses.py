#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Addresses of the kernel's interface that come, go and age while programs run: GID table, events, connections."""

import json
import os
import re
import socket
import struct
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import lab_up, main  # noqa: E402
from uroce_lab import daemon, pairs  # noqa: E402
from uroce_lab.telemetry import ask  # noqa: E402

NAME = f'a{os.getpid()}'
INTERFACE = 'roce0'
SECONDS = 20
LIFE_SECONDS = 2
ROUNDS = 100
PREFIX = '2001:db8:7::'
VERIFY = os.path.join(daemon.build_dir(), 'tests/verbs/verify')


def advertise(interface, valid, preferred):
    """Send a router advertisement (RFC 4861, 4.2) with PREFIX, for autonomous configuration, to all nodes."""
    index = socket.if_nametoindex(interface)
    prefix = struct.pack('!BBBBIII16s', 3, 4, 64, 0xc0, valid, preferred, 0, socket.inet_pton(socket.AF_INET6, PREFIX))
    message = struct.pack('!BBHBBHII', 134, 0, 0, 64, 0, 0, 0, 0) + prefix
    with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as s:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        s.sendto(message, ('ff02::1', 0, 0, index))


class Lab(unittest.TestCase):
    options = ('--wire', 'veth', '--pmd', 'af_packet')

    @classmethod
    def setUpClass(cls):
        up = lab_up(*cls.options, name=NAME)
        cls.lab = up.__enter__()
        cls.addClassCleanup(up.__exit__, None, None, None)

    def setUp(self):
        self.addCleanup(self.clean)
        for host in ('h1', 'h2'):
            self.reload(host, '')
        self.before = self.gids('h1')
        self.assertEqual(sorted(self.before), [0, 1, 2], self.before)

    def clean(self):
        """Only the lab's own addresses are left."""
        for host in ('h1', 'h2'):
            for entry in json.loads(self.netns(host, 'ip', '-j', 'addr', 'show', 'dev', INTERFACE))[0]['addr_info']:
                if entry['scope'] != 'link' and not entry['local'].startswith(('198.18.0.', 'fd00:18::')):
                    self.addr('del', f'{entry["local"]}/{entry["prefixlen"]}', host=host)
            self.wait(lambda host=host: len(self.gids(host)) == 3)

    def index_of(self, address, host='h1'):
        """Once it is there"""
        self.wait(lambda: address in self.gids(host).values())
        return next(index for index, gid in self.gids(host).items() if gid == address)

    def netns(self, host, *words):
        return subprocess.run(['ip', 'netns', 'exec', f'uroce-{NAME}-{host}', *words], check=True, stdout=subprocess.PIPE, text=True).stdout

    def reload(self, host, addresses):
        """Configure other addresses; '': all of the interface. @return why that was refused, or ''"""
        entry = self.lab.hosts[host]
        before = ask(self.lab.data, entry, '/uroce/config')
        self.lab.reload(host, 'addresses', addresses)
        self.wait(lambda: self.reloads(host) > before['reloads'] + before['refused'])
        return ''.join(ask(self.lab.data, entry, '/uroce/config')['error'])

    def reloads(self, host):
        now = ask(self.lab.data, self.lab.hosts[host], '/uroce/config')
        return now['reloads'] + now['refused']

    def addr(self, *words, host='h1'):
        subprocess.run(['ip', '-n', f'uroce-{NAME}-{host}', 'addr', *words, 'dev', INTERFACE], check=True)

    def gids(self, host):
        """{index: address}, as programs see them"""
        listing = self.lab.run(host, 'ibv_devinfo', '-v', '-d', pairs.DEVICE).stdout
        found = re.findall(r'GID\[\s*(\d+)\]:\s*([0-9a-fA-F:.]+)', listing)
        return {int(number): gid.rstrip(',').lower().replace('::ffff:', '') for number, gid in found}

    def wait(self, what, *args):
        end = time.monotonic() + SECONDS
        while not what(*args):
            self.assertLess(time.monotonic(), end, f'{what.__name__}{args}: {self.gids("h1")}\n{self.lab.logs()}')
            time.sleep(0.02)

    def gids_are(self, wanted, host='h1'):
        return self.gids(host) == wanted

    def watch(self):
        side = pairs.Side(self.lab, 'h1', ['ibv_asyncwatch', '-d', pairs.DEVICE])
        self.addCleanup(side.kill)
        self.wait(self.says, side, 'async event FD', 1)
        return side

    @staticmethod
    def says(side, text, times):
        return side.text().count(text) >= times

    def counter(self, host, name):
        return ask(self.lab.data, self.lab.hosts[host], '/uroce/engine,0')['transport'][name]

    def writer(self, index, *options):
        program = ['ib_write_bw', '-d', pairs.DEVICE, '-x', str(index), '-D', '60', '-u', '16', *options]
        server = pairs.start_server(self.lab, program)
        client = pairs.start_client(self.lab, program)
        for side in (server, client):
            self.addCleanup(side.kill)
        end = time.monotonic() + SECONDS
        while ask(self.lab.data, self.lab.hosts['h2'], '/uroce/qp,state=RTS')['all'] != 1:
            self.assertLess(time.monotonic(), end, server.report() + client.report() + str(ask(self.lab.data, self.lab.hosts['h2'], '/uroce/qp')))
            time.sleep(0.02)
        time.sleep(0.2)
        return server, client

    def gid_0_carries_data(self):
        """The link-local address, which programs that don't look take."""
        self.assertTrue(self.before[0].startswith('fe80::'))
        for program in (['ib_write_bw', '-n', '100'], ['ib_send_lat', '-n', '100']):
            pair = pairs.run_pair(self.lab, [*program, '-d', pairs.DEVICE, '-x', '0'], SECONDS)
            self.assertTrue(pair.ok, pair.report() + self.lab.logs())
        address = self.before[0] + (f'%{INTERFACE}' if 'veth' in self.options else '')
        server = pairs.Side(self.lab, 'h1', ['rping', '-s', '-v', '-C', '5', '-a', address])
        self.addCleanup(server.kill)
        self.wait(lambda: ask(self.lab.data, self.lab.hosts['h1'], '/uroce/cm')['listeners'] > 0)
        client = pairs.Side(self.lab, 'h2', ['rping', '-c', '-v', '-C', '5', '-a', address])
        self.addCleanup(client.kill)
        client.wait(time.monotonic() + SECONDS)
        self.assertEqual(client.status, 0, client.report() + server.report() + self.lab.logs())
        self.assertEqual(client.text().count('ping data: rdma-ping'), 5)


class Addresses(Lab):
    def test_gid_0_carries_data(self):
        self.gid_0_carries_data()

    def test_an_address_that_the_interface_lacks_is_refused(self):
        self.addr('add', '198.18.7.1/24')
        index = self.index_of('198.18.7.1')
        error = self.reload('h1', '198.18.7.1/24 198.18.9.9/24')
        self.assertIn('[port uroce0] addresses: 198.18.9.9 is not an address of roce0, which it shares with the kernel: '
                      'ip address add 198.18.9.9/24 dev roce0', error)
        self.assertEqual(self.gids('h1'), {**self.before, index: '198.18.7.1'})
        self.assertEqual(self.reload('h1', '198.18.7.1/24'), '')
        self.assertEqual(self.gids('h1'), {0: self.before[0], index: '198.18.7.1'})
        # The configuration names it: it goes and comes with the interface's.
        self.addr('del', '198.18.7.1/24')
        self.wait(self.gids_are, {0: self.before[0]})
        self.addr('add', '198.18.7.1/24')
        self.wait(self.gids_are, {0: self.before[0], index: '198.18.7.1'})
        self.reload('h1', '')
        self.assertEqual(self.gids('h1'), {**self.before, index: '198.18.7.1'})

    def test_an_address_expires(self):
        self.addr('add', 'fd00:16::1/64', 'valid_lft', str(LIFE_SECONDS), 'preferred_lft', '1', 'nodad')
        self.index_of('fd00:16::1')
        watch = self.watch()
        self.wait(self.gids_are, self.before)
        self.wait(self.says, watch, 'IBV_EVENT_GID_CHANGE', 1)
        self.assertEqual(watch.text().count('IBV_EVENT_GID_CHANGE'), 1)

    def test_a_router_advertises_a_prefix(self):
        """As DHCP and RA renew them: the address appears, its life is prolonged without an event, and ends."""
        watch = self.watch()
        self.netns('h1', 'sysctl', '-qw', f'net.ipv6.conf.{INTERFACE}.accept_ra=2', f'net.ipv6.conf.{INTERFACE}.autoconf=1',
                   f'net.ipv6.conf.{INTERFACE}.accept_dad=0')
        me = os.path.realpath(__file__)
        self.netns('h2', sys.executable, me, 'advertise', INTERFACE, '7200', '3600')
        self.wait(self.says, watch, 'IBV_EVENT_GID_CHANGE', 1)
        gids = self.gids('h1')
        address = next(gid for gid in gids.values() if gid not in self.before.values())
        self.assertEqual(address[:10], PREFIX[:10])
        self.assertEqual(address.split(':')[-4:], gids[0].split(':')[-4:])
        self.netns('h2', sys.executable, me, 'advertise', INTERFACE, '3600', '0')
        self.wait(lambda: 'deprecated' in self.netns('h1', 'ip', '-6', 'addr', 'show', 'dev', INTERFACE))
        self.assertEqual(self.gids('h1'), gids)
        # The router takes no prefix back before two hours are over (RFC 4862, 5.5.3 e): the kernel's administrator does.
        self.addr('del', f'{address}/64')
        self.wait(self.gids_are, self.before)
        self.wait(self.says, watch, 'IBV_EVENT_GID_CHANGE', 2)
        self.assertEqual(watch.text().count('IBV_EVENT_GID_CHANGE'), 2)

    def test_a_connection_over_an_address_that_goes(self):
        self.addr('add', '198.18.7.1/24')
        self.addr('add', '198.18.7.2/24', host='h2')
        index = self.index_of('198.18.7.2', 'h2')
        self.assertEqual(self.index_of('198.18.7.1'), index)
        server, client = self.writer(index)
        # Gone for a moment: retries cover that.
        self.addr('del', '198.18.7.2/24', host='h2')
        self.wait(lambda: self.counter('h2', 'tx_no_address') > 0)
        self.addr('add', '198.18.7.2/24', host='h2')
        self.assertEqual(self.index_of('198.18.7.2', 'h2'), index)
        time.sleep(0.2)
        for side in (server, client):
            self.assertIsNone(side.status, side.report() + self.lab.logs())
        # Gone for good: the requester says why, and its index is nobody else's as long as the QP is there.
        self.addr('del', '198.18.7.2/24', host='h2')
        client.wait(time.monotonic() + SECONDS)
        self.assertNotEqual(client.status, 0, client.report())
        self.assertIn('its own address is no address of its port any more: gave up', self.lab.logs())
        server.kill()
        # Others are not concerned, and new ones can be made at once.
        pair = pairs.run_pair(self.lab, [VERIFY, '-x', str(self.lab.gid_index('h1', 4)), '-n', '3'], SECONDS)
        self.assertTrue(pair.ok, pair.report() + self.lab.logs())

    def test_an_index_in_use_is_nobody_elses(self):
        self.addr('add', '198.18.7.2/24', host='h2')
        self.addr('add', '198.18.7.1/24')
        index = self.index_of('198.18.7.1')
        self.assertEqual(self.index_of('198.18.7.2', 'h2'), index)
        for side in self.writer(index):
            self.addCleanup(side.kill)
        # The other end of h1's QP has its address; nothing is sent by h1 but ACKs, which are lost now.
        self.addr('del', '198.18.7.1/24')
        for i in range(1, 16):
            self.addr('add', f'198.18.100.{i}/32')
        self.wait(lambda: len(self.gids('h1')) == 15)
        self.assertNotIn(index, self.gids('h1'))

    def test_nothing_is_left_of_a_hundred_addresses(self):
        watch = self.watch()
        fds = self.lab.descriptors('h1')
        for i in range(ROUNDS):
            self.addr('add', f'198.18.{20 + i}.1/24')
            self.addr('del', f'198.18.{20 + i}.1/24')
        self.wait(self.gids_are, self.before)
        self.addr('add', '198.18.7.1/24')
        self.wait(lambda: '198.18.7.1' in self.gids('h1').values())
        # Both may be seen together, so there are fewer events than changes.
        self.assertGreater(watch.text().count('IBV_EVENT_GID_CHANGE'), 0)
        watch.kill()
        self.assertLessEqual(self.lab.descriptors('h1'), fds)

class Indices(Lab):
    """In a lab of their own, in which no other address has had an index."""

    def test_indices_stay_and_events_come(self):
        watch = self.watch()
        self.assertEqual(sorted(self.before), [0, 1, 2])
        self.addr('add', '198.18.7.1/24')
        self.wait(self.says, watch, 'IBV_EVENT_GID_CHANGE', 1)
        with_it = {**self.before, 3: '198.18.7.1'}
        self.wait(self.gids_are, with_it)
        # An address in the middle goes: the others stay where they are, and its index is given to nobody as long as others were never used.
        self.addr('del', 'fd00:18::1/64')
        self.wait(self.says, watch, 'IBV_EVENT_GID_CHANGE', 2)
        self.addr('add', 'fd00:17::1/64', 'nodad')
        self.wait(self.gids_are, {0: self.before[0], 1: self.before[1], 3: '198.18.7.1', 4: 'fd00:17::1'})
        # It comes back to the index that it had.
        self.addr('add', 'fd00:18::1/64', 'nodad')
        self.wait(self.gids_are, {**with_it, 4: 'fd00:17::1'})
        self.addr('del', 'fd00:17::1/64')
        self.wait(self.gids_are, with_it)
        self.wait(self.says, watch, 'IBV_EVENT_GID_CHANGE', 5)
        # A deprecated address is still one.
        self.addr('change', 'fd00:18::1/64', 'preferred_lft', '0')
        self.addr('add', '198.18.8.1/24')
        self.wait(self.gids_are, {**with_it, 5: '198.18.8.1'})
        self.assertEqual(watch.text().count('IBV_EVENT_GID_CHANGE'), 6)
        pair = pairs.run_pair(self.lab, ['ib_write_bw', '-d', pairs.DEVICE, '-x', str(self.lab.gid_index('h1', 6)), '-n', '100'], SECONDS)
        self.assertTrue(pair.ok, pair.report() + self.lab.logs())

    def test_the_table_is_full(self):
        """Beyond the last index addresses are left out, and get one when others go; the sysfs files say the same."""
        for i in range(1, 16):
            self.addr('add', f'198.18.100.{i}/32')
        self.wait(lambda: len(self.gids('h1')) == 16)
        index = self.index_of('198.18.100.3')
        self.assertNotIn('198.18.100.14', self.gids('h1').values())
        self.addr('del', '198.18.100.3/32')
        self.assertEqual(self.index_of('198.18.100.14'), index)
        sysfs = self.lab.hosts['h1']['socket'] + '.sys/sys/class/infiniband/uroce0/ports/1'
        for index, address in self.gids('h1').items():
            with open(f'{sysfs}/gids/{index}', encoding='ascii') as f:
                gid = bytes.fromhex(f.read().strip().replace(':', ''))
            want = socket.inet_pton(socket.AF_INET6, address if ':' in address else '::ffff:' + address)
            self.assertEqual(gid, want, f'GID {index}')
            self.assertTrue(os.path.exists(f'{sysfs}/gid_attrs/types/{index}'))
        for i in range(1, 16):
            if i != 3:
                self.addr('del', f'198.18.100.{i}/32')
        self.wait(self.gids_are, self.before)
        self.assertEqual(sorted(int(name) for name in os.listdir(f'{sysfs}/gid_attrs/types')), [0, 1, 2])

class Configured(Lab):
    """By the configuration, on ports of uroced's own."""

    options = ('--wire', 'memif')

    def setUp(self):
        self.before = self.gids('h1')

    def test_gid_0_carries_data(self):
        self.gid_0_carries_data()

    def test_addresses_come_and_go_with_a_reload(self):
        first = ' '.join(f'{gid}/{24 if "." in gid else 64}' for index, gid in self.before.items() if index)
        watch = self.watch()
        self.assertEqual(self.reload('h1', f'198.18.7.1/24 {first}'), '')
        self.wait(self.says, watch, 'IBV_EVENT_GID_CHANGE', 1)
        self.assertEqual(self.gids('h1'), {**self.before, 3: '198.18.7.1'})
        self.reload('h2', '198.18.7.2/24')
        self.assertEqual(list(self.gids('h2').values())[1:], ['198.18.7.2'])
        program = ['ib_send_lat', '-F', '-d', pairs.DEVICE, '-n', '100']
        server = pairs.start_server(self.lab, [*program, '-x', '3'])
        client = pairs.start_client(self.lab, [*program, '-x', str(self.index_of('198.18.7.2', 'h2'))])
        for side in (server, client):
            side.wait(time.monotonic() + SECONDS)
            self.assertEqual(side.status, 0, side.report() + self.lab.logs())
        self.reload('h1', first)
        self.wait(self.gids_are, self.before)
        self.wait(self.says, watch, 'IBV_EVENT_GID_CHANGE', 2)
        self.assertEqual(watch.text().count('IBV_EVENT_GID_CHANGE'), 2)

    def test_what_is_wrong_changes_nothing(self):
        for addresses, says in (('198.18.7.1', 'prefix length is missing'), ('198.18.7.1/24 198.18.7.1/24', 'is given twice'),
                                ('224.0.0.1/24', "multicast address can't be a port's own")):
            self.assertIn(says, self.reload('h1', addresses))
            self.assertEqual(self.gids('h1'), self.before)


class Vlans(Lab):
    """Addresses that name their VLANs, on ports of uroced's own."""

    options = ('--wire', 'memif')
    OTHER_PORT = pairs.TCP_PORT + 1     # of a second pair of programs

    def setUp(self):
        self.more = {'h1': '198.18.5.1/24@5 fd00:5::1/64@5 198.18.6.1/24@6', 'h2': '198.18.5.2/24@5 fd00:5::2/64@5 198.18.6.2/24@7'}
        for host in ('h1', 'h2'):
            self.assertEqual(self.reload(host, self.addresses(host, self.more[host])), '')
            self.assertEqual(len(self.gids(host)), 6)

    def addresses(self, host, more):
        index = self.lab.hosts[host]['index']
        return f'198.18.0.{index}/24 fd00:18::{index:x}/64 {more}'

    def both(self, program, index, port):
        program = [*program, '-F', '-d', pairs.DEVICE, '-n', '100', '-x', str(index)]
        server = pairs.start_server(self.lab, program, port)
        client = pairs.start_client(self.lab, program, port)
        for side in (server, client):
            self.addCleanup(side.kill)
            side.wait(time.monotonic() + SECONDS)
            self.assertEqual(side.status, 0, side.report() + self.lab.logs())

    def rping(self, address):
        server = pairs.Side(self.lab, 'h1', ['rping', '-s', '-C', '5', '-a', address])
        self.addCleanup(server.kill)
        self.wait(lambda: ask(self.lab.data, self.lab.hosts['h1'], '/uroce/cm')['listeners'] > 0)
        client = pairs.Side(self.lab, 'h2', ['rping', '-c', '-v', '-C', '5', '-a', address])
        self.addCleanup(client.kill)
        client.wait(time.monotonic() + SECONDS)
        server.kill()
        return client

    @staticmethod
    def captured(path):
        """{(VLAN, source address): destination QPNs} of the RoCE frames over IPv4, 0: untagged"""
        found = {}
        with open(path, 'rb') as f:
            data = f.read()
        at = 0
        while at < len(data):
            kind, length = struct.unpack_from('=II', data, at)
            if kind == 6:               # enhanced packet block
                size, = struct.unpack_from('=I', data, at + 20)
                frame = data[at + 28:at + 28 + size]
                tagged = frame[12:14] == b'\x81\x00'
                vlan = struct.unpack_from('!H', frame, 14)[0] & 0xfff if tagged else 0
                ip = frame[18 if tagged else 14:]
                if ip[0] == 0x45 and ip[9] == 17:
                    found.setdefault((vlan, socket.inet_ntoa(ip[12:16])), set()).add(int.from_bytes(ip[33:36], 'big'))
            at += length
        return found

    def test_each_address_has_its_vlan(self):
        self.assertIn('198.18.5.1/24@5', ask(self.lab.data, self.lab.hosts['h1'], '/uroce/port,uroce0')['addresses'])
        index = self.index_of('198.18.5.1')
        self.assertEqual(self.index_of('198.18.5.2', 'h2'), index)
        path = os.path.join(self.lab.data['dir'], 'vlans.pcapng')
        untagged = self.writer(self.index_of('198.18.0.1'), '--rate_limit', '10', '--rate_units', 'M')
        ask(self.lab.data, self.lab.hosts['h2'], f'/uroce/capture,start,{path},snap=100')
        self.both(['ib_write_bw'], index, self.OTHER_PORT)
        self.both(['ib_send_lat', '-c', 'UD'], index, self.OTHER_PORT)
        self.both(['ib_send_lat'], self.index_of('fd00:5::1'), self.OTHER_PORT)
        client = self.rping('198.18.5.1')
        self.assertEqual(client.text().count('ping data: rdma-ping'), 5, client.report() + self.lab.logs())
        ask(self.lab.data, self.lab.hosts['h2'], '/uroce/capture,stop')
        for side in untagged:
            self.assertIsNone(side.status, side.report() + self.lab.logs())
        found = self.captured(path)
        self.assertEqual(set(found), {(0, '198.18.0.1'), (0, '198.18.0.2'), (5, '198.18.5.1'), (5, '198.18.5.2')})
        for host in ('1', '2'):         # of rdma_cm, too
            self.assertIn(1, found[5, f'198.18.5.{host}'])
        for host in ('h1', 'h2'):
            self.assertEqual(self.counter(host, 'rx_bad_vlan'), 0)

    def test_what_is_in_different_vlans_is_apart(self):
        index = self.index_of('198.18.6.1')
        self.assertEqual(self.index_of('198.18.6.2', 'h2'), index)
        client = self.rping('198.18.6.1')
        self.assertNotEqual(client.status, 0, client.report())
        self.assertIn('RDMA_CM_EVENT_ADDR_ERROR', client.text())
        error = self.reload('h1', self.addresses('h1', self.more['h1'].replace('@6', '@7')))
        self.assertIn('[port uroce0] addresses: 198.18.6.1 is in VLAN 6; to have it in VLAN 7, remove it, reload, add it and reload again', error)
        self.assertEqual(self.reload('h1', self.addresses('h1', '')), '')
        self.assertEqual(self.reload('h1', self.addresses('h1', self.more['h1'].replace('@6', '@7'))), '')
        self.both(['ib_send_lat'], index, pairs.TCP_PORT)


if __name__ == '__main__':
    if sys.argv[1:2] == ['advertise']:
        sys.exit(advertise(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    sys.exit(main())
