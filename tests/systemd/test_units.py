#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_units.py BUILD: uroce's units under a real systemd, which systemd-nspawn boots, with programs that check every byte all the time.

What docs/operations.md says of systemd: restart, crash, standby, stop, reload. It prints for how long nobody served the programs each time (gap_us of
/uroce/handover).
"""

import atexit
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '../../scripts'), os.path.join(HERE, '../verbs')]

import labs  # noqa: E402
import machine  # noqa: E402
from machine import ADDRESSES, INTERFACE, USER, CannotBoot, Machine, ask, need, write  # noqa: E402

BUILD = os.path.realpath(sys.argv.pop(1)) if len(sys.argv) > 1 else os.path.join(HERE, '../../build')
UROCED, STANDBY, KEEPER = 'uroced.service', 'uroced-standby.service', 'uroce-keeper.service'
SOCKET = '/run/uroce/uroced.sock'
OTHER_SOCKET = '/run/other/uroced.sock'
DAEMON = '[daemon]\nsocket = {socket}\nidle = adaptive\n{more}\n[port uroce0]\nethdev = net_af_packet0\n'
SURVIVES = 'survive_crash = 30\n'
UNITS = '/usr/local/lib/systemd/system', '/usr/lib/systemd/system', '/lib/systemd/system'   # where systemd looks
RESTARTS = 3
CRASHES = 2                 # a fourth one within seconds would end the programs
POLL_SECONDS = 0.1
LOGGED = '^(?!EAL: |TELEMETRY: |.*Sending signal SIGKILL to process)'     # what says something of the units
SECONDS = 40                # until something happens, on a busy machine
TIMEOUT = '18'              # of QPs: a peer is given up after eight times a second
MORE_PACKETS = 1000         # that programs send if they go on
WATCHDOG_SECONDS = 5
FATAL = 'IBV_EVENT_DEVICE_FATAL'
MISTAKE = 'idle_'           # a key that there isn't
SOME_RESTARTS_SECONDS = 1   # in which systemd would have started it anew


def eal():
    """Options of EAL: two lcores, on CPUs that this process may use."""
    cpus = sorted(os.sched_getaffinity(0))
    return f'--lcores 0@{cpus[0]},1@{cpus[-1]} --no-huge -m 512 --no-pci --vdev net_af_packet0,iface={INTERFACE}'


class Child:
    """A program of the container, or of the other host."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace',
                                        start_new_session=True)
        self.text = ''
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.text += line

    def running(self):
        return self.process.poll() is None

    def signal(self, number):
        """nsenter waits for the program in the container's PID namespace, and passes no signal on."""
        with open(f'/proc/{self.process.pid}/task/{self.process.pid}/children', encoding='ascii') as f:
            for pid in f.read().split():
                os.kill(int(pid), number)

    def wait(self):
        self.process.wait(SECONDS)
        self.reader.join(SECONDS)
        self.process.stdout.close()
        return self.process.returncode

    def end(self):
        if self.running():
            with contextlib.suppress(OSError):
                self.signal(signal.SIGKILL)
            self.process.kill()
        self.wait()


class Units(unittest.TestCase):
    # ---- The machine ----
    @classmethod
    def setUpClass(cls):
        options = {option['name']: option['value'] for option in json.loads(need('meson', 'introspect', '--buildoptions', BUILD))}
        cls.prefix = options['prefix']
        cls.etc = os.path.join(cls.prefix, options['sysconfdir'], 'uroce')
        units = options['systemdunitdir'] or os.path.join(cls.prefix, 'lib/systemd/system')
        if units not in UNITS:
            raise labs.Skip(f'this build installs units in {units}, where systemd does not look')
        cls.machine = Machine()
        # An interrupt passes unittest without a cleanup.
        atexit.register(cls.machine.close)
        cls.addClassCleanup(cls.machine.close)
        try:
            cls.machine.start()
        except CannotBoot as e:
            raise labs.Skip(str(e)) from None
        need('meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir', cls.machine.root)
        shutil.copy(os.path.join(BUILD, 'tests/verbs/verify'), os.path.join(cls.machine.root, 'usr/bin/verify'))
        # As docs/operations.md says.
        cls.machine.need('systemd-sysusers')
        cls.machine.need('usermod', '-aG', 'uroce', USER)
        cls.machine.need('systemctl', 'daemon-reload')
        cls.start_other()

    @classmethod
    def start_other(cls):
        """A daemon at the other end of the cable, which nobody restarts."""
        write(DAEMON.format(socket=OTHER_SOCKET, more='user = root\n'), cls.machine.root, 'root/other.conf')
        cls.machine.need('mkdir', '-p', os.path.dirname(OTHER_SOCKET))
        cls.other = Child(cls.machine.other.command('env', f'RUNTIME_DIRECTORY={os.path.dirname(OTHER_SOCKET)}', cls.program('sbin/uroced'), *eal().split(),
                                                    '--', '--config', '/root/other.conf'))
        cls.addClassCleanup(cls.other.end)
        end = time.monotonic() + SECONDS
        while 'uroced: ready' not in cls.other.text:
            if not cls.other.running() or time.monotonic() > end:
                raise AssertionError(cls.other.text)
            time.sleep(0.05)

    @classmethod
    def program(cls, name):
        return os.path.join(cls.prefix, name)

    def setUp(self):
        self.systemctl('stop', STANDBY, UROCED, KEEPER)
        self.systemctl('disable', STANDBY, UROCED, KEEPER)
        self.configure()
        self.children = []
        self.addCleanup(self.end_children)
        self.since = self.machine.need('date', '+%F %T.%N').strip()

    def end_children(self):
        for child in self.children:
            child.end()

    # ---- What an administrator does ----
    def configure(self, more='', options=''):
        write(f'UROCED_EAL="{eal()}"\n' + (f'UROCED_OPTIONS="{options}"\n' if options else ''), self.machine.root + self.etc, 'uroced.env')
        write(DAEMON.format(socket=SOCKET, more=more), self.machine.root + self.etc, 'uroced.conf')

    def drop_in(self, unit, lines):
        """Change a unit, until the end of the test."""
        folder = os.path.join(self.machine.root, 'etc/systemd/system', f'{unit}.d')
        self.addCleanup(self.systemctl, 'daemon-reload')
        self.addCleanup(shutil.rmtree, folder)
        write(f'[Service]\n{lines}\n', folder, 'test.conf')
        self.must('daemon-reload')

    def systemctl(self, *words):
        return self.machine.run('systemctl', '--no-pager', *words, seconds=SECONDS)

    def must(self, *words):
        # systemd refuses a unit's sixth start within ten seconds.
        self.systemctl('reset-failed')
        done = self.systemctl(*words)
        self.assertEqual(done.returncode, 0, done.stdout + self.log())

    def log(self):
        units = [word for unit in (UROCED, STANDBY, KEEPER) for word in ('-u', unit)]
        return self.machine.run('journalctl', '--no-pager', '-o', 'short-precise', '--since', self.since, *units, '--grep', LOGGED).stdout

    def show(self, name, unit=UROCED):
        return self.machine.need('systemctl', 'show', '--value', '-p', name, unit).strip()

    def pid(self, unit=UROCED):
        return int(self.show('MainPID', unit))

    def until(self, condition, what):
        end = time.monotonic() + SECONDS
        while not condition():
            if time.monotonic() > end:
                self.fail(f'{what} after {SECONDS} s\n{self.complaints()}')
            time.sleep(POLL_SECONDS)

    def ask(self, request):
        return ask(self.machine.path(f'{SOCKET}.telemetry'), request)

    def replaced(self, before):
        """@return whether another daemon serves than the one that said this of its programs"""
        try:
            return self.ask('/uroce/handover')['daemons'] != before['daemons']
        except (OSError, ValueError):
            return False

    # ---- Programs ----
    def start(self, command):
        self.children.append(Child(command))
        return self.children[-1]

    def begin(self):
        """Two that check every byte, one at each end, and one that prints asynchronous events."""
        uroce_run, verify = self.program('bin/uroce-run'), ['verify', '-n', '100000', '-u', TIMEOUT]
        self.watch = self.start(self.machine.command(uroce_run, 'stdbuf', '-oL', 'ibv_asyncwatch', '-d', 'uroce0', user=USER))
        self.until(lambda: 'async event FD' in self.watch.text or not self.watch.running(), 'ibv_asyncwatch has not begun')
        self.verify = [self.start(self.machine.command(uroce_run, *verify, user=USER)),
                       self.start(self.machine.other.command(uroce_run, '--socket', OTHER_SOCKET, *verify, ADDRESSES[0]))]
        self.go_on()

    def complaints(self):
        return ''.join(child.text for child in self.children) + self.log()

    def go_on(self):
        """They have had no error, and send more."""
        before = self.machine.other.arrived()

        def sent():
            for child in self.verify:
                if not child.running():
                    self.fail(f'verify has ended\n{self.complaints()}')
            return self.machine.other.arrived() > before + MORE_PACKETS

        self.until(sent, 'nothing is sent')
        self.assertTrue(self.watch.running(), self.complaints())
        self.assertNotIn('event_type', self.watch.text)

    def finish(self):
        """They end by themselves, and say that all was right."""
        self.go_on()
        for child in self.verify:
            child.signal(signal.SIGUSR1)
        for child in self.verify:
            self.assertEqual(child.wait(), 0, self.complaints())
            self.assertIn('were right', child.text)
        self.assertNotIn('event_type', self.watch.text)
        self.watch.end()

    def sees_the_end(self):
        """The device has gone. (The other host's program goes on until it has tried often enough.)"""
        self.assertNotEqual(self.verify[0].wait(), 0, self.complaints())
        self.until(lambda: FATAL in self.watch.text or not self.watch.running(), 'ibv_asyncwatch prints nothing')
        self.assertIn(FATAL, self.watch.text)

    @contextlib.contextmanager
    def pause(self, what, crashes=0):
        """Programs go on with another daemon, and nothing of theirs is missing."""
        before, begun = self.ask('/uroce/handover'), time.monotonic()
        yield
        self.until(lambda: self.replaced(before), 'no other daemon serves')
        self.go_on()
        most_us = (time.monotonic() - begun) * 1e6
        seen = self.ask('/uroce/handover')
        self.assertEqual({name: seen[name] for name in ('sessions', 'qps', 'refused', 'qps_lost')}, {'sessions': 2, 'qps': 4, 'refused': 0, 'qps_lost': 0},
                         self.log())
        self.assertEqual((seen['daemons'], seen['crashes']), (before['daemons'] + 1, before['crashes'] + crashes), seen)
        self.assertTrue(0 < seen['gap_us'] < most_us, (seen, most_us))
        print(f'{what}: nobody served for {seen["gap_us"] / 1000:.0f} ms', flush=True)

    def role(self, unit):
        """@return what the daemon of a unit is, by its log"""
        pid, log = self.pid(unit), self.log()
        lines = re.findall(rf'uroced\[{pid}\]: uroced: (standby for|ready)', log)
        return {'ready': 'serves', 'standby for': 'stands by'}[lines[-1]] if pid and lines else self.show('ActiveState', unit)

    def until_roles(self, uroced, standby):
        seen = []

        def there():
            seen[:] = self.role(UROCED), self.role(STANDBY)
            return seen == [uroced, standby]

        self.until(there, f'{UROCED} is to be "{uroced}", {STANDBY} "{standby}"')

    def processes(self):
        """@return the command lines of all processes of the daemon's user"""
        return self.machine.run('ps', '-u', 'uroce', '-o', 'args=').stdout

    def names(self):
        """@return the bound names of unix sockets in the daemon's folder"""
        found = set()
        for pid in (self.machine.leader, self.machine.other.pid):
            with open(f'/proc/{pid}/net/unix', encoding='utf-8') as f:
                found.update(re.findall(r' (/run/uroce\S*)$', f.read(), re.MULTILINE))
        return found

    # ---- What docs/operations.md says ----
    def test_programs_go_on_after_a_restart(self):
        self.must('start', UROCED)
        self.begin()
        for _ in range(RESTARTS):
            old = self.pid()
            with self.pause('restart'):
                self.must('restart', UROCED)
            self.assertNotIn(self.pid(), (0, old))
            # systemd has forgotten what the old one has left.
            self.assertEqual(self.show('NFileDescriptorStore'), '0')
        self.finish()

    def test_programs_go_on_after_a_crash_if_there_is_a_keeper(self):
        self.configure(SURVIVES)
        self.must('enable', '--now', KEEPER)
        self.must('start', UROCED)
        keeper = self.pid(KEEPER)
        self.begin()
        for _ in range(CRASHES):
            with self.pause('crash', crashes=1):
                self.must('kill', '-s', 'KILL', UROCED)
            self.assertEqual(self.show('NRestarts'), '1')
        self.assertEqual(self.pid(KEEPER), keeper)
        # Both in order, and then it isn't another crash.
        with self.pause('restart with a keeper'):
            self.must('restart', UROCED)
        self.finish()

    def test_the_keeper_listens_before_the_daemon_starts(self):
        """Otherwise the daemon would start one of its own, which ends together with it."""
        path = os.path.join(self.prefix, 'sbin/uroce-keeper')
        self.drop_in(KEEPER, f"ExecStart=\nExecStart=/bin/sh -c 'sleep 1; exec {path} --stay {SOCKET}.keeper'")
        self.configure(SURVIVES, '--standby')
        self.must('start', KEEPER, UROCED)
        keeper = self.pid(KEEPER)
        self.assertEqual(self.machine.need('pgrep', '-f', f'^{path}').split(), [str(keeper)], self.log())
        self.assertEqual(self.show('NRestarts'), '0', self.log())

    def test_programs_end_with_a_daemon_that_crashes_without_a_keeper(self):
        self.must('start', UROCED)
        self.begin()
        self.must('kill', '-s', 'KILL', UROCED)
        self.sees_the_end()
        self.until(lambda: (self.show('NRestarts'), self.show('ActiveState')) == ('1', 'active'), 'systemd starts no other daemon')
        self.assertEqual(self.ask('/uroce/handover')['daemons'], 0)

    def test_a_standby(self):
        self.must('start', UROCED)
        self.begin()
        # The steps of the page, with programs that are there already. 1 and 2:
        self.configure(SURVIVES, '--standby')
        self.must('enable', '--now', KEEPER)
        self.must('enable', STANDBY)
        with self.pause('restart, as set up'):
            self.must('restart', UROCED)
        self.until_roles('serves', 'stands by')
        # 3:
        with self.pause('crash with a standby', crashes=1):
            self.must('kill', '-s', 'KILL', UROCED)
        self.until_roles('stands by', 'serves')
        with self.pause('restart of the standby, which serves'):
            self.must('restart', STANDBY)
        # The daemon before it is told to end, and may be about to.
        self.must('start', UROCED)
        self.until_roles('stands by', 'serves')
        with self.pause('crash of the standby, which serves', crashes=1):
            self.must('kill', '-s', 'KILL', STANDBY)
        self.until_roles('serves', 'stands by')
        with self.pause('restart with a standby'):
            self.must('restart', UROCED)
        # Programs that poll take the processors from a standby that ends, at the lowest priority.
        self.finish()
        self.until_roles('serves', 'inactive')
        self.assertEqual(self.show('Result', STANDBY), 'success')
        self.must('start', STANDBY)
        self.until_roles('serves', 'stands by')
        # 4:
        self.must('stop', UROCED)
        self.until_roles('inactive', 'inactive')
        self.assertEqual(self.show('Result', STANDBY), 'success')
        # As at boot: uroced.service brings the other one.
        self.must('start', UROCED)
        self.until_roles('serves', 'stands by')
        self.must('kill', '-s', 'KILL', UROCED)
        self.until_roles('stands by', 'serves')
        self.must('stop', STANDBY)
        self.until_roles('inactive', 'inactive')

    def test_stop_ends_programs_and_leaves_nothing(self):
        self.must('start', UROCED)
        self.begin()
        self.must('stop', UROCED)
        self.sees_the_end()
        self.assertEqual(self.show('ActiveState'), 'inactive', self.log())
        self.assertEqual(self.show('NFileDescriptorStore'), '0')
        self.assertEqual(self.processes(), '')
        self.assertEqual(self.names(), set())
        # The daemon can't know that there will be no other: the socket's name stays where it was.
        done = self.machine.run(self.program('bin/uroce-run'), 'ibv_devinfo', user=USER)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f'no daemon at {SOCKET}: start uroced', done.stdout)

    def test_a_mistake_in_the_configuration(self):
        self.must('start', UROCED)
        self.begin()
        pid = self.pid()
        self.configure('idle_ = adaptive\n')
        done = self.systemctl('reload', UROCED)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn(MISTAKE, self.systemctl('status', UROCED).stdout)
        self.go_on()
        self.assertEqual((self.pid(), self.show('ActiveState')), (pid, 'active'))
        # A good one is taken.
        self.configure('log_level = debug\n')
        self.must('reload', UROCED)
        self.until(lambda: self.ask('/uroce/config')['reloads'] == 1, 'nothing is read')
        self.go_on()
        # Nothing of it helps if it is started anew.
        self.configure('idle_ = adaptive\n')
        done = self.systemctl('restart', UROCED)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        time.sleep(SOME_RESTARTS_SECONDS)
        seen = {name: self.show(name) for name in ('ActiveState', 'SubState', 'ExecMainStatus', 'NRestarts', 'NFileDescriptorStore')}
        self.assertEqual(seen, {'ActiveState': 'failed', 'SubState': 'failed', 'ExecMainStatus': '2', 'NRestarts': '0', 'NFileDescriptorStore': '0'}, self.log())
        self.assertIn(MISTAKE, self.systemctl('status', UROCED).stdout)
        self.sees_the_end()

    def test_the_daemon_has_what_the_unit_gives_it(self):
        self.must('start', UROCED)
        wanted = {'ActiveState': 'active', 'SubState': 'running', 'Type': 'notify', 'User': 'uroce', 'Group': 'uroce', 'NoNewPrivileges': 'yes',
                  'ProtectSystem': 'strict', 'WatchdogUSec': '1min', 'FileDescriptorStoreMax': '1', 'DevicePolicy': 'closed', 'PrivateTmp': 'yes'}
        self.assertEqual({name: self.show(name) for name in wanted}, wanted)
        uid = self.machine.need('id', '-u', 'uroce').strip()
        status = dict(line.split(':', 1) for line in self.machine.need('cat', f'/proc/{self.pid()}/status').splitlines())
        self.assertEqual(status['Uid'].split(), [uid] * 4)
        self.assertEqual((int(status['CapEff'], 16), int(status['CapPrm'], 16), status['NoNewPrivs'].strip(), status['Seccomp'].strip()), (0, 0, '1', '2'))
        # The file systems are those of the unit.
        root = next(line for line in self.machine.need('cat', f'/proc/{self.pid()}/mountinfo').splitlines() if line.split()[4] == '/')
        self.assertIn('ro', root.split()[5].split(','))

    def test_the_watchdog(self):
        """A daemon that lives tells it; one that doesn't is replaced, and programs go on."""
        self.configure(SURVIVES)
        self.must('enable', '--now', KEEPER)
        self.drop_in(UROCED, f'WatchdogSec={WATCHDOG_SECONDS}')
        self.must('start', UROCED)
        self.begin()
        time.sleep(WATCHDOG_SECONDS + 1)
        self.assertEqual(self.show('NRestarts'), '0', self.log())
        with self.pause('watchdog', crashes=1):
            self.must('kill', '-s', 'STOP', '--kill-whom=main', UROCED)
        self.assertEqual(self.show('NRestarts'), '1')
        self.assertIn('Watchdog timeout', self.log())
        self.finish()


if __name__ == '__main__':
    if why := machine.lacking():
        print(f'skipped: {why}')
        sys.exit(labs.SKIPPED)
    machine.in_namespace()
    sys.exit(labs.main())
