#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Daemons that have become an ordinary user: what rights they have left, and that nothing is missing.

The lab is raised with --user: its daemons start as root and then become USER, which every Debian has.
"""

import contextlib
import ctypes
import os
import pwd
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, '../../scripts')]

from labs import closed_to_others, lab_up, main  # noqa: E402
from uroce_lab import daemon, pairs, places  # noqa: E402
from uroce_lab.state import is_root  # noqa: E402

NAME = f'p{os.getpid()}'
USER = 'daemon'
SECONDS = 20                # for a pair of programs, and for everything else that is waited for
CAPABILITIES = {'CAP_DAC_OVERRIDE': 1, 'CAP_FOWNER': 3, 'CAP_NET_ADMIN': 12, 'CAP_SYS_PTRACE': 19, 'CAP_CHECKPOINT_RESTORE': 40}


def status(path):
    with open(os.path.join(path, 'status'), encoding='utf-8') as f:
        return dict(line.rstrip('\n').split(':\t', 1) for line in f if ':\t' in line)


def broker_of(pid):
    """The daemon's only child."""
    with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as f:
        return int(f.read())


def until(true, what, seconds=SECONDS):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f'after {seconds} s: {what}')
        time.sleep(0.02)


def alive(pid):
    return os.path.exists(f'/proc/{pid}') and status(f'/proc/{pid}')['State'][0] not in 'ZX'


def read(path):
    with open(path, encoding='utf-8', errors='replace') as f:
        return f.read()


@unittest.skipUnless(is_root(), 'only root can become another user')
def refuse_openat2():
    """As RestrictSUIDSGID= of the unit does, for this process and what it executes."""
    allow, errno_enosys, no_new_privs = 0x7fff0000, 0x00050026, 3        # seccomp.h
    lib = ctypes.CDLL('libseccomp.so.2')
    lib.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(lib.seccomp_init(allow))
    number = lib.seccomp_syscall_resolve_name(b'openat2')
    if (lib.seccomp_attr_set(rules, no_new_privs, 0) or lib.seccomp_rule_add(rules, errno_enosys, number, 0) or lib.seccomp_load(rules)):
        raise OSError('no filter of system calls')


class Privileges(unittest.TestCase):
    def lab(self, *options):
        lab = self.stack.enter_context(lab_up('--user', USER, *options, name=NAME))
        self.assertIn('shared memory mapped', read(lab.hosts['h1']['log']))
        return lab

    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def limited(self, path, capabilities=()):
        """A thread is USER, has these capabilities and no others, and a filter of system calls."""
        found = status(path)
        user = pwd.getpwnam(USER)
        self.assertEqual(found['Uid'].split(), [str(user.pw_uid)] * 4, path)
        self.assertEqual(found['Gid'].split(), [str(user.pw_gid)] * 4, path)
        self.assertNotIn('0', found['Groups'].split(), path)
        mask = sum(1 << CAPABILITIES[name] for name in capabilities)
        self.assertEqual([int(found[key], 16) for key in ('CapPrm', 'CapEff', 'CapInh', 'CapAmb')], [mask, mask, 0, 0], path)
        self.assertEqual((found['NoNewPrivs'], found['Seccomp']), ('1', '2'), path)

    def threads_limited(self, pid):
        for thread in os.listdir(f'/proc/{pid}/task'):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):    # a closer's: they come and go
                self.limited(f'/proc/{pid}/task/{thread}')

    def all_limited(self, lab, *more):
        pid = lab.pid('h1')
        self.threads_limited(pid)
        broker = broker_of(pid)
        self.limited(f'/proc/{broker}', ('CAP_DAC_OVERRIDE', 'CAP_FOWNER', 'CAP_SYS_PTRACE', 'CAP_CHECKPOINT_RESTORE', *more))
        self.assertEqual(read(f'/proc/{broker}/comm'), 'uroced-broker\n')
        # Nothing of the daemon's but their socket and one for each host, and nothing of the terminal's but its messages.
        hosts = len(lab.hosts) if lab.data['one_process'] else 1
        self.assertEqual(len(os.listdir(f'/proc/{broker}/fd')), 3 + hosts)

    def pair(self, lab, *program):
        pair = pairs.run_pair(lab, [*program, '-d', 'uroce0'], SECONDS)
        self.assertTrue(pair.ok, pair.report())

    def shared_memory(self, lab, mapped=True):
        """The daemon maps a program's shared memory, which it couldn't open itself."""
        path = f'/dev/shm/{NAME}'
        with open(path, 'wb', opener=lambda name, flags: os.open(name, flags, 0o600)) as f:
            f.truncate(64 << 20)
        self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
        program = ['ib_write_bw', '-F', '-d', 'uroce0', '-D', '2']
        server = pairs.start_server(lab, [*program, f'--mmap={path}'])
        self.addCleanup(server.kill)
        client = pairs.start_client(lab, program)
        self.addCleanup(client.kill)
        maps, found = f'/proc/{lab.pid("h1")}/maps', False
        end = time.monotonic() + SECONDS
        while server.child.poll() is None and time.monotonic() < end:
            found = found or path in read(maps)
            time.sleep(0.02)
        client.wait(time.monotonic() + SECONDS)
        self.assertEqual(found, mapped, 'whether the daemon has mapped it: ' + server.report())
        self.assertEqual((server.status, client.status), (0, 0), server.report() + client.report())

    def ends_clean(self, lab):
        """Nothing of a daemon remains, though it couldn't remove it itself."""
        pid, host = lab.pid('h1'), lab.hosts['h1']
        broker = broker_of(pid)
        os.kill(pid, signal.SIGTERM)
        until(lambda: not alive(pid) and not alive(broker), 'daemon or broker are still there')
        self.assertEqual([name for name in os.listdir(host['dir']) if name.startswith('uroced.sock')], [])
        self.assertNotIn('PANIC', read(host['log']))

    def test_af_packet(self):
        lab = self.lab('--wire', 'veth')
        host, namespace = lab.hosts['h1'], lab.hosts['h1']['namespace']
        self.all_limited(lab)
        self.pair(lab, 'ib_write_bw')
        self.pair(lab, 'ib_send_lat', '-e')
        self.shared_memory(lab)
        # What programs see of the link is rewritten.
        state = host['socket'] + '.sys/sys/class/infiniband/uroce0/ports/1/state'
        for direction, text in (('down', 'DOWN'), ('up', 'ACTIVE')):
            subprocess.run(['ip', '-n', namespace, 'link', 'set', 'roce0', direction], check=True)
            until(lambda text=text: text in read(state), f'{state} does not say {text}')
        self.all_limited(lab)
        self.ends_clean(lab)

    def test_af_xdp(self):
        lab = self.lab('--wire', 'veth', '--pmd', 'af_xdp')
        namespace = lab.hosts['h1']['namespace']

        def programs():
            return re.findall(r'prog/xdp id \d+', subprocess.run(['ip', '-n', namespace, '-details', 'link', 'show', 'roce0'],
                                                                 stdout=subprocess.PIPE, text=True, check=True).stdout)
        self.all_limited(lab, 'CAP_NET_ADMIN')
        self.pair(lab, 'ib_write_bw')
        self.assertEqual(len(programs()), 1)
        self.ends_clean(lab)
        self.assertEqual(programs(), [], 'the XDP program is still there')

    def test_memif(self):
        lab = self.lab('--no-one-process')
        self.all_limited(lab)
        self.pair(lab, 'ib_write_bw')
        self.shared_memory(lab)
        # SIGHUP, and impairing a port at run time.
        log = lab.hosts['h1']['log']
        os.kill(lab.pid('h1'), signal.SIGHUP)
        until(lambda: 'configuration read again: 0 keys' in read(log), 'no reload: ' + read(log))
        self.ends_clean(lab)

    def test_one_process(self):
        lab = self.lab('--one-process')
        self.all_limited(lab)
        self.pair(lab, 'ib_send_bw')
        self.ends_clean(lab)

    def service_user(self, *more):
        """@return how to start a program as the service manager starts the service, with `more` of the capabilities that ports.md names."""
        with open(os.path.join(daemon.build_dir(), 'config/uroced.service'), encoding='utf-8') as f:
            names = re.findall('^AmbientCapabilities=(.*)$', f.read(), re.MULTILINE)[0].split() + list(more)
        caps = ','.join('+' + name.removeprefix('CAP_').lower() for name in names)
        user = pwd.getpwnam(USER)
        # The manager mounts a procfs of the service's own, where a process's files are others than in the programs'.
        return ['sh', '-c', 'mount -t proc proc /proc && exec "$@"', 'sh',
                'setpriv', f'--reuid={user.pw_uid}', f'--regid={user.pw_gid}', '--clear-groups', '--no-new-privs',
                f'--bounding-set=-all,{caps}', f'--inh-caps=-all,{caps}', f'--ambient-caps=-all,{caps}']

    def start(self, port, prefix):
        """A daemon at one end of a veth pair, started by `prefix`. @return its process and socket"""
        folder = self.stack.enter_context(tempfile.TemporaryDirectory(dir='/tmp'))
        os.chown(folder, pwd.getpwnam(USER).pw_uid, -1)
        for command in (f'netns add {NAME}', f'-n {NAME} link add roce0 type veth peer name roce1', f'-n {NAME} link set roce1 up',
                        f'-n {NAME} link set roce0 mtu 3000 up', f'-n {NAME} addr add 198.18.0.1/24 dev roce0'):
            subprocess.run(['ip', *command.split()], check=True)
            if command.startswith('netns'):
                self.stack.callback(subprocess.run, ['ip', 'netns', 'del', NAME], check=True)
        args = [places.find()['uroced'], '--lcores', '0@0,1@0', '--no-huge', '-m', '256', '--no-pci', '--vdev', port, '--',
                '--socket', f'{folder}/sock', '--set', f'port uroce0.ethdev={port.partition(",")[0]}', '--set', 'daemon.socket_mode=0666']
        log = open(os.path.join(folder, 'log'), 'w+', encoding='utf-8')
        self.stack.callback(log.close)
        child = subprocess.Popen(['ip', 'netns', 'exec', NAME, *prefix, *args], stdout=log, stderr=log,
                                 env={**os.environ, 'RUNTIME_DIRECTORY': folder}, preexec_fn=refuse_openat2)
        self.stack.callback(child.wait)
        self.stack.callback(child.kill)
        until(lambda: child.poll() is not None or 'uroced: ready' in read(log.name), 'not ready: ' + read(log.name))
        self.assertIsNone(child.poll(), read(log.name))
        self.assertIn('shared memory mapped', read(log.name))
        return child, f'{folder}/sock'

    def service(self, port, capabilities, *more):
        """A daemon that a service manager starts as an ordinary user with capabilities gives these up."""
        child, sock = self.start(port, self.service_user(*more))
        self.threads_limited(child.pid)
        self.limited(f'/proc/{broker_of(child.pid)}', capabilities)
        seen = subprocess.run([places.find()['uroce-run'], '--socket', sock, 'ibv_devinfo', '-d', 'uroce0'], stdout=subprocess.PIPE,
                              text=True, check=True)
        self.assertIn('PORT_ACTIVE', seen.stdout)
        self.assertNotIn("can't be given", read(os.path.join(os.path.dirname(sock), 'log')))
        child.terminate()
        self.assertEqual(child.wait(SECONDS), 0)
        self.assertEqual([name for name in os.listdir(os.path.dirname(sock)) if name.startswith('sock')], [])
        link = subprocess.run(['ip', '-n', NAME, '-details', 'link', 'show', 'roce0'], stdout=subprocess.PIPE, text=True, check=True)
        self.assertNotIn('prog/xdp', link.stdout)

    def test_service(self):
        self.service('net_af_packet0,iface=roce0', ('CAP_DAC_OVERRIDE', 'CAP_SYS_PTRACE', 'CAP_CHECKPOINT_RESTORE'))

    @unittest.skipIf(closed_to_others(), closed_to_others())     # the daemon loads a program for the kernel from there
    def test_service_af_xdp(self):
        self.service(f'net_af_xdp0,iface=roce0,xdp_prog={places.find()["uroce_xdp.o"]}',
                     ('CAP_DAC_OVERRIDE', 'CAP_NET_ADMIN', 'CAP_SYS_PTRACE', 'CAP_CHECKPOINT_RESTORE'), 'CAP_BPF',
                     'CAP_IPC_LOCK')        # in place of LimitMEMLOCK=, which not every root may raise

    def test_killed(self):
        """The broker cleans up after a daemon that was killed; without the broker a daemon goes on."""
        lab = self.lab('--no-one-process')
        os.kill(broker_of(lab.pid('h1')), signal.SIGKILL)
        self.pair(lab, 'ib_write_bw')
        self.shared_memory(lab, mapped=False)
        self.assertIn('the broker has ended', read(lab.hosts['h1']['log']))
        pid = lab.pid('h2')
        broker = broker_of(pid)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(broker), 'the broker is still there')
        self.assertFalse(os.path.exists(lab.hosts['h2']['socket']))
        self.assertFalse(os.path.exists(lab.hosts['h2']['socket'] + '.sys'))


if __name__ == '__main__':
    sys.exit(main())
