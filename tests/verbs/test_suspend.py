#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce_suspend(), uroce_resume(): what serves programs is uroced or an application, and one replaces the other; the programs go on."""

import os
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import LAB, Skip, TestLab, lab_command, lacking, main  # noqa: E402
from uroce_lab import daemon, wires  # noqa: E402
from uroce_lab.state import Process, State, start_time  # noqa: E402

VERIFY = os.path.join(daemon.build_dir(), 'tests/verbs/verify')
APPLICATION = os.path.join(daemon.build_dir(), 'tests/verbs/suspending')
OPTIONS = ('--wire', 'veth')
HOST = 'h1'
STARTED = 1                 # seconds after which a pair runs
SECONDS = 60
RUN = 0.5                   # seconds for which programs go on with each
MESSAGES = '500'            # some seconds
SERVES = 'suspending: serves'


class Application:
    """The application in place of a host's daemon, of which the lab thinks that it is its daemon."""

    def __init__(self, lab, *how, config='uroced.conf'):
        host = lab.hosts[HOST]
        self.log_from = os.path.getsize(host['log'])
        self.host = host
        name = wires.ethdev(lab.data, host)
        args = ['ip', 'netns', 'exec', host['namespace'], APPLICATION, '--lcores', daemon.lcores(lab.data, host), '--no-pci', '--no-huge', '-m', '512',
                '--iova-mode', 'va', '--no-telemetry', '--file-prefix', f'{lab.name}-{os.urandom(4).hex()}', '--', os.path.join(host['dir'], config), name, *how]
        with open(host['log'], 'a', encoding='utf-8') as log:
            self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=host['dir'], start_new_session=True,
                                            env={**os.environ, 'XDG_RUNTIME_DIR': host['dir'], 'RUNTIME_DIRECTORY': host['dir']})

    def wait_said(self, what):
        daemon.wait_said(self.host, what, self.log_from, self.process.poll)

    def serves(self):
        self.wait_said(SERVES)
        with open(self.host['pid_file'], 'w', encoding='ascii') as f:
            f.write(f'{self.process.pid} {start_time(self.process.pid)}\n')
        return self

    def said(self):
        with open(self.host['log'], encoding='utf-8', errors='replace') as f:
            f.seek(self.log_from)
            return f.read()


class Suspend(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if reason := lacking(OPTIONS):
            raise Skip(reason)

    def setUp(self):
        self.lab = TestLab(f'u{os.getpid()}s', OPTIONS)
        self.started = []
        self.addCleanup(self.end)

    def end(self):
        lab_command('down', '--name', self.lab.name)
        for process in self.started:
            process.kill()
            process.communicate(timeout=SECONDS)

    def application(self, *how, **options):
        application = Application(self.lab, *how, **options)
        self.started.append(application.process)
        return application

    def restart(self):
        done = lab_command('restart', '--name', self.lab.name, HOST)
        self.lab.data = State(self.lab.name).load().data
        self.lab.hosts = {host['name']: host for host in self.lab.data['hosts']}
        return done

    def verify(self):
        pair = subprocess.Popen([LAB, 'pair', '--name', self.lab.name, VERIFY, '-n', MESSAGES, '-u', '16'], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.started.append(pair)
        time.sleep(STARTED)
        self.lab.wait_sessions('h2', True)
        return pair

    def was_right(self, pair):
        said = pair.communicate(timeout=SECONDS)[0]
        self.assertEqual(pair.returncode, 0, said + self.lab.logs())
        self.assertEqual(said.count('were right'), 2, said)
        self.started.remove(pair)

    def ended(self, process):
        self.assertEqual(process.wait(SECONDS), 0, self.lab.logs())

    def replace_daemon(self):
        """An application takes the programs of the lab's daemon."""
        old = Process.of(self.lab.hosts[HOST]['pid_file'])
        application = self.application('resume').serves()
        self.assertFalse(old.alive())
        return application

    def stop_daemon(self):
        old = Process.of(self.lab.hosts[HOST]['pid_file'])
        old.signal(signal.SIGTERM)
        end = time.monotonic() + SECONDS
        while old.alive() and time.monotonic() < end:
            time.sleep(0.01)
        self.assertFalse(old.alive(), self.lab.logs())

    def test_daemon_application_application_daemon(self):
        pair = self.verify()
        first = self.replace_daemon()
        time.sleep(RUN)
        second = self.application('resume').serves()
        self.ended(first.process)
        self.assertIn('another process has the programs', first.said())
        time.sleep(RUN)
        done = self.restart()
        self.assertEqual(done.returncode, 0, done.stdout + self.lab.logs())
        self.ended(second.process)
        self.assertIsNone(pair.poll(), 'it ended too early')
        self.was_right(pair)

    def test_an_application_that_began_is_replaced(self):
        self.stop_daemon()
        first = self.application().serves()
        pair = self.verify()
        second = self.application('resume').serves()
        self.ended(first.process)
        self.was_right(pair)
        second.process.terminate()
        self.ended(second.process)

    def test_another_configuration_is_refused(self):
        """The application goes on with its programs."""
        pair = self.verify()
        application = self.replace_daemon()
        host = self.lab.hosts[HOST]
        with open(os.path.join(host['dir'], 'uroced.conf'), encoding='utf-8') as f:
            text = f.read()
        with open(os.path.join(host['dir'], 'other.conf'), 'w', encoding='utf-8') as f:
            f.write(text.replace('[port uroce0]', '[port uroce1]'))
        other = self.application('resume', config='other.conf')
        self.assertEqual(other.process.wait(SECONDS), 1)
        self.assertIn('port 0 of the running daemon is uroce0, of this one uroce1', other.said())
        application.wait_said("refused: Invalid argument: the other process didn't take over")
        time.sleep(RUN)
        self.assertIsNone(application.process.poll())
        self.assertIsNone(pair.poll(), 'it ended too early')
        self.was_right(pair)

    def test_nobody_is_there(self):
        self.stop_daemon()
        application = self.application('resume')
        self.assertEqual(application.process.wait(SECONDS), 1)
        self.assertIn('there is none; start without --take-over, or by uroce_create()', application.said())

    def test_an_open_device_is_refused(self):
        """Who asks is told at once, and may ask again."""
        self.stop_daemon()
        application = self.application('own').serves()
        other = self.application('resume')
        application.wait_said('refused: Device or resource busy: a device of it is open in this process')
        self.assertEqual(other.process.wait(SECONDS), 1)
        self.assertIn('a device of it is open in this process', other.said())
        pair = self.verify()
        self.application('resume').serves()
        self.ended(application.process)
        self.was_right(pair)

    def test_who_asks_is_killed(self):
        """An application that hasn't answered yet can be asked again."""
        self.stop_daemon()
        application = self.application('deaf').serves()
        pair = self.verify()
        for _ in range(2):
            other = self.application('resume')
            time.sleep(STARTED)
            other.process.kill()
            other.process.wait()
        time.sleep(RUN)
        self.assertIsNone(pair.poll(), 'it ended too early')
        self.was_right(pair)
        self.assertIsNone(application.process.poll())


if __name__ == '__main__':
    sys.exit(main())
