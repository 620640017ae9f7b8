#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs that look for devices in /dev/infiniband and /sys/class/infiniband: UCX between two hosts, and the files that are there."""

import os
import re
import shutil
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import lab_up, main  # noqa: E402
from uroce_lab import pairs  # noqa: E402

# ucx_perftest's transport (with _verbs: for itself, else under UCP, as MPI uses it), test and further options. docs/compatibility.md lists
# them.
CASES = (
    ('rc_verbs', 'am_lat', '-s 8'),
    ('rc_verbs', 'put_lat', '-s 64'),
    ('rc_verbs', 'am_bw', '-D zcopy -s 8000'),
    ('rc_verbs', 'put_bw', '-D zcopy -s 65536'),
    ('rc_verbs', 'get', '-D zcopy -s 65536'),
    ('rc_verbs', 'fadd', '-s 8'),
    ('ud_verbs', 'am_lat', '-s 8'),
    ('ud_verbs', 'am_bw', '-D zcopy -s 2000'),
    ('rc', 'tag_lat', '-s 100'),
    ('rc', 'tag_bw', '-s 1000000'),
    ('rc', 'ucp_get', '-s 100000'),
    ('ud', 'tag_bw', '-s 20000'),
)
PAIR_SECONDS = 60
SYS = '/sys/class/infiniband/uroce0'


@unittest.skipUnless(shutil.which('ucx_perftest'), 'ucx-utils is not installed')
class Ucx(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.up = lab_up(name=f'u{os.getpid()}')
        cls.lab = cls.up.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.up.__exit__(None, None, None)

    def tearDown(self):
        self.assertTrue(self.lab.whole(), 'a daemon ended:\n' + self.lab.logs())

    def looking(self, *program):
        return [self.lab.data['programs']['uroce-run'], *program]

    def read(self, name):
        done = self.lab.run('h1', *self.looking('cat', os.path.join(SYS, name)))
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout.strip()

    def test_what_programs_read_is_there(self):
        index = self.lab.gid_index('h1', 4)
        self.assertEqual(self.read('ports/1/link_layer'), 'Ethernet')
        self.assertEqual(self.read('ports/1/state'), '4: ACTIVE')
        self.assertEqual(self.read('ports/1/pkeys/0'), '0xffff')
        self.assertEqual(self.read(f'ports/1/gid_attrs/types/{index}'), 'RoCE v2')
        self.assertEqual(self.read(f'ports/1/gids/{index}'), '0000:0000:0000:0000:0000:ffff:c612:0001')
        guid = self.lab.run('h1', 'ibv_devinfo', '-d', 'uroce0').stdout.split('node_guid:')[1].split()[0]
        self.assertEqual(self.read('node_guid'), guid)
        # An unused entry has no type, as in sysfs.
        self.assertNotEqual(self.lab.run('h1', *self.looking('cat', f'{SYS}/ports/1/gid_attrs/types/15')).returncode, 0)
        done = self.lab.run('h1', *self.looking('ls', '/sys/class/infiniband', '/dev/infiniband'))
        self.assertEqual(done.stdout.split(), ['/dev/infiniband:', 'uroce0', '/sys/class/infiniband:', 'uroce0'])
        # Other folders are the system's, and without the option so are these.
        self.assertEqual(self.lab.run('h1', *self.looking('ls', '/sys/class')).stdout, self.lab.run('h1', 'ls', '/sys/class').stdout)
        self.assertNotEqual(self.lab.run('h1', '--no-sysfs', 'cat', f'{SYS}/node_guid').returncode, 0)

    def test_it_goes_with_the_daemon(self):
        folder = self.lab.hosts['h1']['socket'] + '.sys'
        self.assertTrue(os.path.isdir(folder))
        with lab_up(name=f'g{os.getpid()}') as other:
            gone = other.hosts['h1']['socket'] + '.sys'
            self.assertTrue(os.path.isdir(gone))
        self.assertFalse(os.path.exists(gone))

    @staticmethod
    def not_by_mpi():
        """An option of the ucx_perftest that Debian 13 has, which uses MPI if its stdin is no terminal; Debian 12's doesn't know it."""
        said = subprocess.run(['ucx_perftest', '-h'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors='replace', check=False).stdout
        return ['-P', '0'] if re.search(r'^\s+-P\b', said, re.M) else []

    def test_ucx_perftest(self):
        not_by_mpi = self.not_by_mpi()
        for transport, test, options in CASES:
            alone = transport.endswith('_verbs')
            program = self.looking('env', f'UCX_TLS={transport}', 'UCX_NET_DEVICES=uroce0:1', 'ucx_perftest',
                                   *(['-d', 'uroce0:1', '-x', transport] if alone else []), *not_by_mpi, '-t', test, '-n', '100', '-w', '5',
                                   *options.split(), '-p', str(pairs.TCP_PORT))
            with self.subTest(transport=transport, test=test):
                pair = pairs.run_pair(self.lab, program, PAIR_SECONDS)
                self.assertTrue(pair.ok, pair.report() + self.lab.logs())
                self.assertIn('Final:', pair.client.text())


if __name__ == '__main__':
    sys.exit(main())
