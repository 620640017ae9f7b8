#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a user who made a mistake reads: the thing, the remedy, and an exit status that is not 0."""

import errno
import glob
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import AS_NOBODY, lab_up, main, not_as_others  # noqa: E402
from uroce_lab import daemon, pairs  # noqa: E402
from uroce_lab.state import is_root  # noqa: E402

NAME = f'b{os.getpid()}'
BUILD = daemon.build_dir()
UROCED = os.path.join(BUILD, 'app/uroced/uroced')
RUN = os.path.join(BUILD, 'app/uroce-run/uroce-run')
PORT = '[port uroce0]\nethdev = net_ring0\naddresses = 198.18.0.1/24\n'
# lib/ring/ctl.h: struct ctl_req and struct ctl_rsp
CTL_MAGIC = 0x6f727543
CTL_HELLO = 1
REQ_BYTES = 8 + 256
RSP_BYTES = 16 + 512


def run(*args, **options):
    return subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=60, check=False, **options)


class Scratch(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='uroce-bad-')
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        # Root's EAL keeps its runtime files here, whatever XDG_RUNTIME_DIR says.
        for prefix in (NAME, NAME + 'x'):
            self.addCleanup(shutil.rmtree, f'/var/run/dpdk/{prefix}', ignore_errors=True)
        self.socket = os.path.join(self.dir, 'uroced.sock')

    def said(self, done, *words):
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertGreater(done.returncode, -1, f'died by signal: {done.stdout}')
        for word in words:
            self.assertIn(word, done.stdout)


class Daemon(Scratch):
    def uroced(self, config, *eal):
        path = os.path.join(self.dir, 'uroced.conf')
        with open(path, 'w', encoding='utf-8') as f:
            f.write(config if config.startswith('[daemon]') else f'[daemon]\nsocket = {self.socket}\n{config}')
        eal = eal or ('--no-huge', '-m', '256')
        return run(UROCED, '--lcores', '0@0,1@0', '--no-pci', '--file-prefix', NAME, '--vdev', 'net_ring0', *eal, '--',
                   '--config', path, env={**os.environ, 'XDG_RUNTIME_DIR': self.dir})

    def refused(self, config, *words, eal=()):
        self.said(self.uroced(config, *eal), *words)
        self.assertFalse(os.path.exists(self.socket), 'a socket was left behind')

    def test_an_unknown_key_is_named_with_those_there_are(self):
        self.refused(PORT + 'colour = blue\n', 'uroced.conf:6', 'colour', 'ethdev')
        self.refused('[daemon]\nspeed = 3\n' + PORT, 'uroced.conf:2', 'speed', 'socket')

    def test_an_unknown_section(self):
        self.refused(PORT + '[weather]\nrain = 1\n', 'weather', '[daemon]')

    def test_an_address_that_does_not_parse(self):
        self.refused(PORT.replace('198.18.0.1/24', '198.18.0.1/33'), 'addresses', '198.18.0.1/33', '32')
        self.refused(PORT.replace('198.18.0.1/24', '198.18.0.x/24'), 'addresses', '198.18.0.x/24')
        self.refused(PORT.replace('198.18.0.1/24', 'fd00::1/129'), 'addresses', 'fd00::1/129', '128')

    def test_a_port_that_does_not_exist_and_those_that_do(self):
        self.refused(PORT.replace('net_ring0', 'net_memif7'), 'net_memif7', 'net_ring0')

    def test_a_socket_of_a_virtual_machine_that_cannot_be_made(self):
        config = PORT.replace('net_ring0', 'net_vhost0')
        for devargs, words in (('', ('lacks devarg iface', 'iface=/run/uroce/vm1.sock')),
                               (',iface=/nonexistent/vm.sock', ('iface=/nonexistent/vm.sock: there is no folder /nonexistent', 'mkdir -p /nonexistent')),
                               (f',iface={self.dir}', ('no socket is there', 'remove it'))):
            with self.subTest(devargs=devargs):
                self.refused(config, *words, eal=('--no-huge', '-m', '256', '--vdev', 'net_vhost0' + devargs))

    @unittest.skipUnless(is_root(), 'needs mounts of its own')
    def test_a_driver_that_is_not_installed(self):
        drivers = glob.glob('/usr/lib/*/dpdk/pmds-*')[0]
        path = os.path.join(self.dir, 'uroced.conf')
        with open(path, 'w', encoding='ascii') as f:
            f.write(f'[daemon]\nsocket = {self.socket}\n{PORT}')
        os.mkdir(self.dir + '-hide')
        self.addCleanup(os.rmdir, self.dir + '-hide')
        hide = 'mount -t tmpfs none "$1" && mkdir "$1/u" "$1/w" && mount -t overlay -o lowerdir="$0",upperdir="$1/u",workdir="$1/w" none "$0" && ' \
               'rm "$0"/librte_net_vhost.* && shift && exec "$@"'
        done = run('unshare', '--mount', 'sh', '-c', hide, drivers, self.dir + '-hide', UROCED, '--lcores', '0@0,1@0', '--no-pci', '--file-prefix',
                   NAME, '--no-huge', '-m', '256', '--vdev', f'net_vhost0,iface={self.dir}/vm.sock', '--', '--config', path,
                   env={**os.environ, 'XDG_RUNTIME_DIR': self.dir})
        self.said(done, "DPDK's driver net_vhost is not installed: apt-get install librte-net-vhost")

    def test_a_port_section_without_ethdev(self):
        self.refused('[port uroce0]\naddresses = 198.18.0.1/24\n', 'uroce0', 'ethdev')

    def test_no_port_at_all(self):
        self.refused('', 'port', 'ethdev')

    def test_a_configuration_that_is_not_there(self):
        done = run(UROCED, '--no-huge', '--no-pci', '--file-prefix', NAME, '--', '--config', '/nonexistent/uroced.conf',
                   env={**os.environ, 'XDG_RUNTIME_DIR': self.dir})
        self.said(done, '/nonexistent/uroced.conf')

    @unittest.skipUnless(is_root(), "an ordinary user's hugepages are not ours to count")
    def test_too_few_hugepages(self):
        huge = os.path.join(self.dir, 'huge')
        os.mkdir(huge)
        mounted = run('mount', '-t', 'hugetlbfs', '-o', 'pagesize=2M', 'none', huge)
        if mounted.returncode:
            self.skipTest(f'no hugetlbfs: {mounted.stdout}')
        self.addCleanup(run, 'umount', huge)
        self.refused(PORT, 'hugepages', '--no-huge', eal=('--huge-dir', huge, '-m', '1000000'))

    @unittest.skipUnless(is_root(), 'needs mounts of its own')
    def test_hugepages_that_are_reserved_but_not_mounted(self):
        meminfo = os.path.join(self.dir, 'meminfo')
        for pages, words in ((300, 'no hugetlbfs is mounted'), (0, 'reserve hugepages')):
            with self.subTest(pages=pages):
                with open(meminfo, 'w', encoding='ascii') as f:
                    f.write(f'HugePages_Total:     {pages}\nHugepagesize:       2048 kB\n')
                done = run('unshare', '--mount', 'sh', '-c', 'umount -a -t hugetlbfs; mount --bind "$0" /proc/meminfo && exec "$@"', meminfo,
                           UROCED, '--lcores', '0@0,1@0', '--no-pci', '--file-prefix', NAME, '--', '--set', f'daemon.socket={self.socket}',
                           '--set', 'port uroce0.ethdev=net_ring0',
                           env={**os.environ, 'XDG_RUNTIME_DIR': self.dir})
                self.said(done, "EAL doesn't start", words)


class Client(Scratch):
    def test_no_daemon(self):
        done = run(RUN, '--socket', self.socket, 'ibv_devinfo')
        self.said(done, self.socket, 'uroced')

    def test_a_socket_that_nobody_serves_any_more(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.bind(self.socket)
        done = run(RUN, '--socket', self.socket, 'ibv_devinfo')
        self.said(done, self.socket, 'uroced')

    def test_uroce_run_without_a_program(self):
        self.said(run(RUN), 'PROGRAM')

    def test_uroce_run_with_an_option_it_does_not_have(self):
        self.said(run(RUN, '--frobnicate', 'ibv_devinfo'), 'frobnicate')


class WithDaemon(Scratch):
    @classmethod
    def setUpClass(cls):
        cls.up = lab_up(name=NAME)
        cls.lab = cls.up.__enter__()
        cls.served = cls.lab.hosts['h1']['socket']

    @classmethod
    def tearDownClass(cls):
        cls.up.__exit__(None, None, None)

    def tearDown(self):
        self.assertTrue(self.lab.whole(), 'a daemon ended:\n' + self.lab.logs())

    def hello(self, version, length=REQ_BYTES, magic=CTL_MAGIC, op=CTL_HELLO):
        """@return (status, the daemon's version), or None if the daemon just closed"""
        request = struct.pack('=IIII64s', magic, op, version, os.getpid(), b'test').ljust(REQ_BYTES, b'\0')[:length]
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.settimeout(10)
            s.connect(self.served)
            s.send(request)
            try:
                reply = s.recv(2 * RSP_BYTES)
            except ConnectionResetError:
                return None
        if not reply:
            return None
        self.assertEqual(len(reply), RSP_BYTES)
        _, _, status, _, theirs = struct.unpack_from('=IIiII', reply)
        return status, theirs

    def test_a_client_of_another_abi_version_learns_the_daemons(self):
        status, theirs = self.hello(0xffff)
        self.assertEqual(status, errno.EPROTO)
        self.assertNotEqual(theirs, 0xffff)
        self.assertEqual(self.hello(theirs)[0], 0)

    def test_malformed_requests_harm_nobody(self):
        for bad in ({'length': 0}, {'length': 3}, {'length': 100}, {'magic': 1}, {'op': 0}, {'op': 0xffffffff}):
            answer = self.hello(1, **bad)
            self.assertTrue(answer is None or answer[0] != 0, bad)
        self.assertEqual(self.lab.run('h1', 'ibv_devinfo').returncode, 0)

    def test_a_second_daemon_on_the_socket_is_refused_and_the_first_goes_on(self):
        config = os.path.join(self.dir, 'second.conf')
        with open(config, 'w', encoding='utf-8') as f:
            f.write(f'[daemon]\nsocket = {self.served}\n{PORT}')
        done = run(UROCED, '--lcores', '0@0,1@0', '--no-pci', '--file-prefix', NAME + 'x', '--vdev', 'net_ring0',
                   '--no-huge', '-m', '256', '--', '--config', config, env={**os.environ, 'XDG_RUNTIME_DIR': self.dir})
        self.said(done, self.served)
        self.assertEqual(self.lab.run('h1', 'ibv_devinfo').returncode, 0)

    @unittest.skipIf(not_as_others(), not_as_others())
    def test_a_socket_without_permission(self):
        mode = os.stat(self.served).st_mode & 0o777
        os.chmod(self.served, 0o600)
        try:
            done = run(*AS_NOBODY, RUN, '--socket', self.served, 'ibv_devinfo')
        finally:
            os.chmod(self.served, mode)
        self.said(done, self.served, 'ermission')

    def test_a_device_that_is_not_there(self):
        done = self.lab.run('h1', 'ibv_rc_pingpong', '-d', 'uroce7')
        self.said(done, 'uroce7')

    def test_a_gid_index_that_is_unused(self):
        pair = pairs.run_pair(self.lab, ['ibv_rc_pingpong', '-d', 'uroce0', '-g', '14'], 20)
        self.assertFalse(pair.ok, pair.report())
        self.assertFalse(pair.client.timed_out, pair.report())
        self.assertIn('RTR', pair.report())


if __name__ == '__main__':
    sys.exit(main())
