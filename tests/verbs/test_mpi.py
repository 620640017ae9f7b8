#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""OpenMPI over UCX between two hosts (mpi.c), started as docs/operations.md says."""

import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '../../scripts')]

import mpi_hosts  # noqa: E402
from labs import lab_up  # noqa: E402

SECONDS = 120
MIN_PACKETS = 1000          # of each host: what the program sends is more by far


@unittest.skipIf(mpi_hosts.lacking(), mpi_hosts.lacking())
class Mpi(unittest.TestCase):
    def test_messages_collective_operations_and_one_sided_access(self):
        name = f'p{os.getpid()}'
        with tempfile.TemporaryDirectory(prefix='uroce-mpi-') as folder, lab_up(name=name) as lab:
            done = lab.run('h1', *mpi_hosts.openmpi(lab, folder, mpi_hosts.compiled(folder)), timeout=SECONDS)
            report = done.stdout + lab.logs()
            self.assertEqual(done.returncode, 0, report)
            self.assertIn('all right', done.stdout, report)
            for host in ('h1', 'h2'):
                self.assertGreater(mpi_hosts.packets(lab, host), MIN_PACKETS, f'{host}: by another way\n{report}')
            self.assertTrue(lab.whole(), report)


if __name__ == '__main__':
    unittest.main(verbosity=2)
