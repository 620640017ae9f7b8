#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A daemon with two ports, of which one can't be opened when it starts: the log says why and what would help, the other one serves, and the first
one serves as well once its device is there."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import Skip, lacking, main  # noqa: E402
from uroce_lab import daemon  # noqa: E402

SECONDS = 20
BUILD = daemon.build_dir()
UROCED = os.path.join(BUILD, 'app/uroced/uroced')
RUN = os.path.join(BUILD, 'app/uroce-run/uroce-run')


class Ports(unittest.TestCase):
    def setUp(self):
        if why := lacking(('veth',)):
            raise Skip(why)
        self.ns = f'uroce-ports-{os.getpid()}'
        self.dir = tempfile.mkdtemp(prefix='uroce-ports-')
        self.addCleanup(subprocess.run, ['rm', '-r', self.dir], check=True)
        subprocess.run(['ip', 'netns', 'add', self.ns], check=True)
        self.addCleanup(subprocess.run, ['ip', 'netns', 'del', self.ns], check=True)
        self.ip('link', 'set', 'lo', 'up')
        self.add('eth0', '198.18.0.1/24')
        self.log = os.path.join(self.dir, 'log')
        self.socket = os.path.join(self.dir, 'uroced.sock')

    def ip(self, *words):
        subprocess.run(['ip', '-n', self.ns, *words], check=True)

    def add(self, name, *addresses):
        self.ip('link', 'add', name, 'type', 'veth', 'peer', 'name', f'{name}-peer')
        for address in addresses:
            self.ip('addr', 'add', address, 'dev', name)
        self.ip('link', 'set', f'{name}-peer', 'up')
        self.ip('link', 'set', name, 'up')

    def start(self, *ports, vdevs=()):
        """@param ports  A text of keys per port"""
        prefix = os.path.basename(self.socket)
        path = os.path.join(self.dir, f'{prefix}.conf')
        with open(path, 'w', encoding='ascii') as f:
            f.write(f'[daemon]\nsocket = {self.socket}\nuser = root\n')
            for number, keys in enumerate(ports):
                f.write(f'[port uroce{number}]\n{keys}\n')
        args = [UROCED, '--no-huge', '-m', '256', '--no-pci', '--lcores', '0@0,1@0', '--file-prefix', prefix,
                *(word for vdev in vdevs for word in ('--vdev', vdev)), '--', '--config', path]
        with open(self.log, 'w', encoding='ascii') as log:
            self.uroced = subprocess.Popen(['ip', 'netns', 'exec', self.ns, *args], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                           env={**os.environ, 'RUNTIME_DIRECTORY': self.dir})
        self.addCleanup(self.stop, self.uroced)

    @staticmethod
    def stop(child):
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
            child.wait(SECONDS)

    def text(self):
        with open(self.log, encoding='ascii', errors='replace') as f:
            return f.read()

    def wait(self, what):
        end = time.monotonic() + SECONDS
        while not what():
            self.assertIsNone(self.uroced.poll(), self.text())
            self.assertLess(time.monotonic(), end, self.text())
            time.sleep(0.05)

    def says(self, text):
        self.wait(lambda: text in self.text())

    def devices(self):
        """{device: its GIDs}"""
        text = subprocess.run(['ip', 'netns', 'exec', self.ns, RUN, 'ibv_devinfo', '-v'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, 'UROCE_SOCKET': self.socket}, text=True, check=False).stdout
        found = {}
        for line in text.splitlines():
            if line.startswith('hca_id:'):
                name = line.split()[1]
                found[name] = []
            elif 'GID[' in line:
                found[name].append(line.split()[-3].rstrip(',').replace('::ffff:', ''))
        return found

    def serves(self, *names):
        return sorted(self.devices()) == list(names)

    def test_an_interface_that_is_not_there_yet(self):
        self.start('ethdev = net_af_packet0', 'ethdev = net_af_packet1', vdevs=('net_af_packet0,iface=eth7', 'net_af_packet1,iface=eth0'))
        self.says('uroced: ready')
        self.assertIn('port uroce0: there is no interface eth7, which --vdev net_af_packet0,iface=eth7 names', self.text())
        self.assertIn('1 of 2 ports can\'t be opened', self.text())
        self.assertTrue(self.serves('uroce1'), self.devices())
        self.assertIn('198.18.0.1', self.devices()['uroce1'])
        self.add('eth7', '198.18.7.1/24')
        self.wait(lambda: self.serves('uroce0', 'uroce1'))
        self.says('uroce0: link up')
        self.assertIn('198.18.7.1', self.devices()['uroce0'])
        # It was made while the daemon serves, and goes and comes as the other one does.
        self.ip('link', 'del', 'eth7')
        self.wait(lambda: self.serves('uroce1'))
        self.assertIsNone(self.uroced.poll())

    def test_a_socket_whose_folder_is_not_there_yet(self):
        folder = os.path.join(self.dir, 'vms')
        path = os.path.join(folder, 'vm.sock')
        self.start('ethdev = net_vhost0\naddresses = 198.18.7.1/24', 'ethdev = net_af_packet1', vdevs=(f'net_vhost0,iface={path}', 'net_af_packet1,iface=eth0'))
        self.says('uroced: ready')
        self.assertIn(f'port uroce0: ethdev net_vhost0: devarg iface={path}: there is no folder {folder}', self.text())
        self.assertTrue(self.serves('uroce1'), self.devices())
        os.mkdir(folder)
        self.wait(lambda: self.serves('uroce0', 'uroce1'))
        self.assertTrue(os.path.exists(path))
        self.assertIn('198.18.7.1', self.devices()['uroce0'])

    def test_an_address_that_the_interface_lacks(self):
        self.start('ethdev = net_af_packet0', 'ethdev = net_af_packet1\naddresses = 198.18.7.1/24',
                   vdevs=('net_af_packet0,iface=eth0', 'net_af_packet1,iface=eth1'))
        self.says('uroced: ready')
        self.assertIn('port uroce1: there is no interface eth1', self.text())
        self.add('eth1', '198.18.8.1/24')
        self.says('port uroce1: 198.18.7.1 is not an address of eth1, which it shares with the kernel: ip address add 198.18.7.1/24 dev eth1')
        self.assertTrue(self.serves('uroce0'))
        self.ip('addr', 'add', '198.18.7.1/24', 'dev', 'eth1')
        self.wait(lambda: self.serves('uroce0', 'uroce1'))

    def test_an_address_that_another_port_has(self):
        self.add('eth1', '198.18.0.1/32', '198.18.1.1/24')
        self.start('ethdev = net_af_packet0', 'ethdev = net_af_packet1', vdevs=('net_af_packet0,iface=eth0', 'net_af_packet1,iface=eth1'))
        self.says('uroced: ready')
        self.assertIn('uroce1: 198.18.0.1 is an address of uroce0 already, and no GID here', self.text())
        self.assertEqual([self.devices()[name][1:] for name in ('uroce0', 'uroce1')], [['198.18.0.1'], ['198.18.1.1']])
        # One that comes later is refused, too; and it is a GID when the other port hasn't got it any more and something changes.
        self.ip('addr', 'add', '198.18.1.1/32', 'dev', 'eth0')
        self.says('uroce0: 198.18.1.1 is an address of uroce1 already')
        self.ip('addr', 'del', '198.18.1.1/24', 'dev', 'eth1')
        self.ip('addr', 'add', '198.18.2.1/24', 'dev', 'eth0')
        self.wait(lambda: set(self.devices()['uroce0'][1:]) == {'198.18.0.1', '198.18.1.1', '198.18.2.1'})

    def test_none_can_be_opened(self):
        self.start('ethdev = net_af_packet0', 'ethdev = 0000:7f:1f.7', vdevs=('net_af_packet0,iface=eth7',))
        self.assertNotEqual(self.uroced.wait(SECONDS), 0)
        self.assertIn('port uroce0: there is no interface eth7', self.text())
        self.assertIn('port uroce1: there is no ', self.text())

    def test_a_vlan_that_is_not_there(self):
        self.start('ethdev = net_af_packet0', 'ethdev = net_af_packet1', vdevs=('net_af_packet0,iface=eth0', 'net_af_packet1,iface=eth0.5'))
        self.says('uroced: ready')
        self.assertIn('there is no interface eth0.5', self.text())
        self.assertIn('ip link add link eth0 name eth0.5 type vlan id 5', self.text())
        made = subprocess.run(['ip', '-n', self.ns, *'link add link eth0 name eth0.5 type vlan id 5'.split()], stderr=subprocess.DEVNULL, check=False)
        if made.returncode:
            return              # this kernel has no VLANs
        self.ip('addr', 'add', '198.18.5.1/24', 'dev', 'eth0.5')
        self.ip('link', 'set', 'eth0.5', 'up')
        self.wait(lambda: self.serves('uroce0', 'uroce1'))
        self.assertIn('198.18.5.1', self.devices()['uroce1'])

    def test_an_interface_of_another_daemon(self):
        self.add('eth1', '198.18.1.1/24')
        self.start('ethdev = net_af_packet0', vdevs=('net_af_packet0,iface=eth0',))
        self.says('uroced: ready')
        first, self.socket = self.uroced, self.socket + '2'
        self.log += '2'
        self.start('ethdev = net_af_packet0', 'ethdev = net_af_packet1', vdevs=('net_af_packet0,iface=eth0', 'net_af_packet1,iface=eth1'))
        self.says('uroced: ready')
        self.assertIn('port uroce0: UDP port 4791 on eth0 is taken: another uroced', self.text())
        self.assertTrue(self.serves('uroce1'))
        # When that one has gone, it is this one's.
        self.stop(first)
        self.wait(lambda: self.serves('uroce0', 'uroce1'))


if __name__ == '__main__':
    sys.exit(main())
