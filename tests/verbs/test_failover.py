#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two routers that share an address: the second takes it over when the first dies (as VRRP does it), and connections through it go on."""

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
from uroce_lab import pairs, wires  # noqa: E402
from uroce_lab.telemetry import ask  # noqa: E402

NAME = f'v{os.getpid()}'
SECONDS = 20
INTERFACE = 'wan0'          # of routers
NETWORKS = '198.18.0', '198.19.0'
SHARED = 254                # the address that routers share
ROUTERS = {'r1': 251, 'r2': 252}
FAR = '198.19.0.2/24'
GONE_SECONDS = 0.1          # from a router's death until the other has noticed


def announce(interface):
    """Gratuitous ARP (RFC 5227, 3) for the shared addresses."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
        s.bind((interface, 0x0806))
        mac = s.getsockname()[4]
        for network in NETWORKS:
            address = socket.inet_aton(f'{network}.{SHARED}')
            s.send(b'\xff' * 6 + mac + struct.pack('!HHHBBH', 0x0806, 1, 0x0800, 6, 4, 1) + mac + address + bytes(6) + address)


def ip(namespace, *words):
    subprocess.run(['ip', '-n', namespace, *words], check=True)


class Failover(unittest.TestCase):
    def setUp(self):
        up = lab_up('--wire', 'veth', '--pmd', 'af_packet', '--switch', name=NAME)
        self.lab = up.__enter__()
        self.addCleanup(up.__exit__, None, None, None)
        self.switch = wires.namespace(NAME, 'sw')
        for name, number in ROUTERS.items():
            self.add_router(name, number)
        self.take('r1')
        h1, h2 = (self.lab.hosts[host]['namespace'] for host in ('h1', 'h2'))
        ip(h2, 'addr', 'del', '198.18.0.2/24', 'dev', 'roce0')
        ip(h2, 'addr', 'add', FAR, 'dev', 'roce0')
        ip(h1, 'route', 'add', '198.19.0.0/24', 'via', f'198.18.0.{SHARED}')
        ip(h2, 'route', 'add', '198.18.0.0/24', 'via', f'198.19.0.{SHARED}')
        self.lab.reload('h2', 'addresses', '')
        self.wait(lambda: '198.19.0.2' in self.gids('h2'))

    @staticmethod
    def namespace(router):
        return wires.namespace(NAME, router)

    def add_router(self, name, number):
        ns = self.namespace(name)
        wires.add_namespace(ns)
        self.addCleanup(wires.remove_namespace, ns)
        ip(ns, 'link', 'add', INTERFACE, 'type', 'veth', 'peer', 'name', name, 'netns', self.switch)
        ip(self.switch, 'link', 'set', name, 'mtu', '4200', 'master', 'br0', 'up')
        ip(ns, 'link', 'set', INTERFACE, 'mtu', '4200', 'up')
        for network in NETWORKS:
            ip(ns, 'addr', 'add', f'{network}.{number}/24', 'dev', INTERFACE)
        subprocess.run(['ip', 'netns', 'exec', ns, 'sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv4.conf.all.send_redirects=0',
                        f'net.ipv4.conf.{INTERFACE}.send_redirects=0'], check=True)

    def take(self, router):
        """The router has the shared addresses from now on, and says so."""
        for network in NETWORKS:
            ip(self.namespace(router), 'addr', 'add', f'{network}.{SHARED}/24', 'dev', INTERFACE)
        subprocess.run(['ip', 'netns', 'exec', self.namespace(router), sys.executable, os.path.realpath(__file__), 'announce', INTERFACE], check=True)

    def die(self, router):
        """It forwards nothing any more. Its interface stays up: without it the bridge would flood what goes there."""
        subprocess.run(['ip', 'netns', 'exec', self.namespace(router), 'sysctl', '-qw', 'net.ipv4.ip_forward=0'], check=True)
        for network in NETWORKS:
            ip(self.namespace(router), 'addr', 'del', f'{network}.{SHARED}/24', 'dev', INTERFACE)

    def gids(self, host):
        listing = self.lab.run(host, 'ibv_devinfo', '-v', '-d', pairs.DEVICE).stdout
        return {gid.replace('::ffff:', ''): index for index, gid in re.findall(r'GID\[\s*(\d+)\]:\s*([0-9a-fA-F:.]+)', listing)}

    def wait(self, what):
        end = time.monotonic() + SECONDS
        while not what():
            self.assertLess(time.monotonic(), end, self.lab.logs())
            time.sleep(0.01)

    def received(self):
        return ask(self.lab.data, self.lab.hosts['h1'], '/uroce/engine,0')['transport']['rx_packets']

    def wait_for_end(self, side):
        """Wait as long as packets come: how many pings a second there are depends on what else the cores do."""
        came, end = self.received(), time.monotonic() + SECONDS
        while side.child.poll() is None:
            now = self.received()
            if now != came:
                came, end = now, time.monotonic() + SECONDS
            self.assertLess(time.monotonic(), end, f'no packet for {SECONDS} s\n' + side.report() + self.lab.logs())
            time.sleep(0.05)

    def port(self, host):
        return ask(self.lab.data, self.lab.hosts[host], '/uroce/port,uroce0')

    def fail_over(self):
        self.die('r1')
        time.sleep(GONE_SECONDS)
        self.take('r2')

    def test_a_connection_goes_on(self):
        program = ['ib_write_bw', '-d', pairs.DEVICE, '-D', '60', '-s', '65536', '-u', '18']
        server = pairs.start_server(self.lab, [*program, '-x', self.gids('h1')['198.18.0.1']])
        client = pairs.start_client(self.lab, [*program, '-x', self.gids('h2')['198.19.0.2']])
        for side in (server, client):
            self.addCleanup(side.kill)
        self.wait(lambda: self.received() > 1000)
        self.fail_over()
        began, before = time.monotonic(), self.received()
        self.wait(lambda: self.received() > before + 1000)
        print(f'goes on {time.monotonic() - began:.3f} s after the announcement')
        for side in (server, client):
            self.assertIsNone(side.child.poll(), side.report() + self.lab.logs())
        for host, network in zip(('h1', 'h2'), NETWORKS):
            port = self.port(host)
            self.assertEqual((port['neighbour_changes'], port['paths_followed']), (1, 1), self.lab.logs())
            self.assertRegex(self.lab.logs(), rf'the MAC address of {network}\.{SHARED} is [0-9a-f:]{{17}} now; 1 QPs and AHs follow')

    def test_a_connection_of_rdma_cm_goes_on_and_ends(self):
        server = pairs.Side(self.lab, 'h1', ['rping', '-s', '-a', '198.18.0.1'])
        self.addCleanup(server.kill)
        self.wait(lambda: ask(self.lab.data, self.lab.hosts['h1'], '/uroce/cm')['listeners'] > 0)
        client = pairs.Side(self.lab, 'h2', ['rping', '-c', '-a', '198.18.0.1', '-C', '8000'])
        self.addCleanup(client.kill)
        self.wait(lambda: self.received() > 1000)
        self.fail_over()
        self.assertIsNone(client.child.poll(), client.report())
        for side in (client, server):
            self.wait_for_end(side)
            self.assertEqual(side.status, 0, client.report() + server.report() + self.lab.logs())


if __name__ == '__main__':
    if sys.argv[1:2] == ['announce']:
        sys.exit(announce(sys.argv[2]))
    sys.exit(main())
