#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-lab restart: which hugepages a daemon and its standby may count on, and when a standby begins. No daemon is started here."""

import os
import subprocess
import sys
import tempfile
import unittest
from types import SimpleNamespace
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../../scripts'))

from uroce_lab import daemon, restart  # noqa: E402
from uroce_lab.state import start_time  # noqa: E402

HOST = {'name': 'h1', 'pid_file': '/nowhere/uroced.pid', 'log': '/nowhere/log'}


class Pages(unittest.TestCase):
    def done(self, standby, status=0, hugepages=True):
        """@return what a restart does, in its order"""
        done = []

        def lib(name, *_):
            done.append(name)
            return status, 'none left'
        state = SimpleNamespace(data={'hugepages': hugepages, 'standby': standby, 'dir': '/lab'})
        with mock.patch.multiple(restart, lib=lib, adopt=lambda *_: None, ring_hugepages=lambda: 0, note=lambda _: None), \
                mock.patch.object(restart.daemon, 'start_standby', lambda _lab, _host, huge: done.append(f'standby {huge}')):
            restart.restart(state, HOST, lambda _state, _host, huge: done.append(f'daemon {huge}'))
            if standby:
                done.append('again')
                restart.stand_by(state, HOST)
        return done

    def test_pages_are_spare_until_the_standby_has_its_own(self):
        self.assertEqual(self.done(True), ['hugepages_up', 'daemon True', 'standby True', 'hugepages_down', 'again',
                                           'hugepages_up', 'standby True', 'hugepages_down'])
        self.assertEqual(self.done(False), ['hugepages_up', 'daemon True', 'hugepages_down'])

    def test_ordinary_pages_if_there_are_no_others(self):
        self.assertEqual(self.done(True, status=1), ['hugepages_up', 'daemon False', 'standby False', 'hugepages_down', 'again',
                                                     'hugepages_up', 'standby False', 'hugepages_down'])
        self.assertEqual(self.done(True, hugepages=False), ['daemon False', 'standby False', 'again', 'standby False'])

    def test_the_old_standby_has_ended_before_the_next_one_has_its_pid_file(self):
        events = []
        with tempfile.TemporaryDirectory() as folder, subprocess.Popen(['sleep', '0.5']) as old:
            host = dict(HOST, pid_file=os.path.join(folder, 'uroced.pid'))
            with open(host['pid_file'] + daemon.STANDBY, 'w', encoding='ascii') as f:
                f.write(f'{old.pid} {start_time(old.pid)}\n')
            state = SimpleNamespace(data={'hugepages': False, 'standby': True})
            with mock.patch.multiple(restart, adopt=lambda *_: None), \
                    mock.patch.object(restart.daemon, 'forget_standby', lambda _lab, _host, process: events.append(f'gone {process.pid}')), \
                    mock.patch.object(restart.daemon, 'start_standby', lambda *_: events.append(start_time(old.pid))):
                restart.restart(state, host, lambda *_: events.append('served'))
        self.assertEqual(events, ['served', f'gone {old.pid}', None])

    def started(self, mount_status):
        """@return how a daemon is started by a shell whose mount(8) has this status"""
        with tempfile.TemporaryDirectory() as folder:
            fake = os.path.join(folder, 'mount')
            with open(fake, 'w', encoding='ascii') as f:
                f.write(f'#!/bin/sh\nexit {mount_status}\n')
            os.chmod(fake, 0o755)
            done = subprocess.run(['sh', '-c', daemon.MOUNT_HUGE, os.path.join(folder, 'huge'), 'echo', '--lcores', '0@(0, 1)'],
                                  env=dict(os.environ, PATH=f'{folder}:{os.environ["PATH"]}'), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=True)
            return done.stdout.replace(folder, '')

    def test_others_may_take_pages_that_were_free(self):
        self.assertEqual(self.started(0), '--huge-dir /huge --lcores 0@(0, 1)\n')
        self.assertIn('\n--no-huge -m 512 --lcores 0@(0, 1)\n', self.started(32))


if __name__ == '__main__':
    unittest.main()
