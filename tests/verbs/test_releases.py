#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs that were built for the other release of Debian, on the libraries that were built here: perftest's and ibverbs-utils'."""

import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

import programs  # noqa: E402
from labs import lab_up, main  # noqa: E402
from uroce_lab import pairs  # noqa: E402

PAIR_SECONDS = 60
PAIRS = (
    ('ib_write_bw', '-n 200 -s 8192'),
    ('ib_read_bw', '-n 200 -s 8192'),
    ('ib_send_bw', '-c UD -n 200 -s 1024'),
    ('ib_send_lat', '-n 200 -e'),
    ('ib_write_lat', '-n 200 --use_old_post_send'),
    ('ib_atomic_bw', '-n 200'),
    ('ibv_rc_pingpong', '-n 200 -c'),
    ('ibv_srq_pingpong', '-n 200'),
)


class OtherRelease(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            cls.release = programs.other_release()
            programs.root_folder(cls.release)
        except programs.packages.NoPackage as e:
            raise unittest.SkipTest(f'no programs of another release: {e}') from None
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix='uroce-programs-'))
        os.chmod(cls.folder, 0o755)
        programs.make_commands(cls.release, cls.folder)
        cls.lab = cls.enterClassContext(lab_up(name=f'o{os.getpid()}'))
        cls.gid = str(cls.lab.gid_index('h1', 4))

    def command(self, program):
        return os.path.join(self.folder, program)

    def test_the_device_is_found(self):
        done = self.lab.run('h1', self.command('ibv_devinfo'), '-d', pairs.DEVICE, '-v')
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn('PORT_ACTIVE', done.stdout)

    def test_pairs(self):
        for name, options in PAIRS:
            with self.subTest(release=self.release, program=name, options=options):
                gid_option = '-g' if name.startswith('ibv_') else '-x'
                pair = pairs.run_pair(self.lab, [self.command(name), '-d', pairs.DEVICE, gid_option, self.gid, *options.split()], PAIR_SECONDS)
                report = pair.report() + self.lab.logs()
                self.assertTrue(pair.ok, report)
                size, iterations, found = pairs.result(name, pair.client.text())
                print(f'{self.release}: {name} {options}: {size} bytes, {iterations} times: {found}', flush=True)
        self.assertTrue(self.lab.whole(), 'a daemon ended:\n' + self.lab.logs())


if __name__ == '__main__':
    sys.exit(main())
