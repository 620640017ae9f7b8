# SPDX-License-Identifier: BSD-3-Clause
"""A container that systemd-nspawn boots: a systemd of its own as its process 1, and uroce installed in it; and a second host at the other end of a cable.

Its /usr is this machine's, and what is written there is lost at the end. Everything else of it is made here, so nothing that this machine starts is
started there. All of it is on a tmpfs in a mount namespace, and all processes are in a PID namespace. If this process is killed, an empty folder and empty
cgroups are left.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

NEEDS = {'systemd-nspawn': 'systemd-container', 'nsenter': 'util-linux', 'setpriv': 'util-linux', 'ip': 'iproute2', 'meson': 'meson'}
BOOT_SECONDS = 30
RUN_SECONDS = 30
END_SECONDS = 10
GREETING_BYTES = 1024
INSIDE = 'UROCE_SYSTEMD_INSIDE'     # a variable: this is the process in the namespaces
# Of what this machine's packages have in /usr: nothing of it has to do with uroce.
MASKED = ('dbus.service', 'dbus.socket', 'getty.target', 'systemd-logind.service', 'systemd-networkd.service', 'systemd-resolved.service',
          'systemd-tmpfiles-clean.timer', 'systemd-update-utmp-runlevel.service', 'systemd-update-utmp.service')
COPIED = ('alternatives', 'ld.so.cache', 'ld.so.conf', 'ld.so.conf.d', 'nsswitch.conf')
USER = 'ann'
INTERFACE = 'eth0'
ADDRESSES = '198.18.0.1', '198.18.0.2'      # of the container, and of the other host


class CannotBoot(Exception):
    """Why a container can't be booted on this machine."""


def run(*words, seconds=RUN_SECONDS, **options):
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace', timeout=seconds,
                          check=False, **options)


def need(*words, **options):
    done = run(*words, **options)
    if done.returncode:
        raise RuntimeError(f'{" ".join(words)}: status {done.returncode}: {done.stdout}')
    return done.stdout


def lacking():
    """@return what this machine or user lacks, None if nothing"""
    if os.geteuid() != 0:
        return 'only root can boot a container'
    packages = sorted({package for program, package in NEEDS.items() if not shutil.which(program)})
    if packages:
        return f'not installed: {" ".join(packages)}'
    done = run('unshare', '--mount', '--propagation', 'private', '--pid', '--fork', 'mount', '-t', 'tmpfs', 'none', '/mnt')
    return f'namespaces and mounts are refused: {done.stdout.strip()}' if done.returncode else None


def in_namespace():
    """Go on with this program in a mount namespace and a PID namespace of its own: all processes that it starts end with it. Returns there."""
    if INSIDE not in os.environ:
        os.environ[INSIDE] = '1'
        os.execvp('unshare', ['unshare', '--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child', '--mount-proc', *sys.orig_argv])


def write(text, *path, mode=0o644):
    name = os.path.join(*path)
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, 'w', encoding='utf-8') as f:
        f.write(text)
    os.chmod(name, mode)
    return name


class Cgroup:
    """The cgroup of the container. Without a systemd on this machine systemd-nspawn would make its own ones in ours, and leave them."""

    def __init__(self, name):
        self.folders = []
        with open('/proc/self/cgroup', encoding='ascii') as f:
            ours = {kind: path.lstrip('/') for _, kind, path in (line.strip().split(':', 2) for line in f)}
        # Version 1; version 2 beside it; version 2 alone.
        for root, kind in ('/sys/fs/cgroup/systemd', 'name=systemd'), ('/sys/fs/cgroup/unified', ''), ('/sys/fs/cgroup', ''):
            folder = os.path.join(root, ours.get(kind, 'none'))
            if os.path.exists(os.path.join(folder, 'cgroup.procs')):
                self.folders.append(os.path.join(folder, name))

    def __enter__(self):
        for folder in self.folders:
            os.mkdir(folder)
        return self

    def join(self):
        """In a child, before its program."""
        for folder in self.folders:
            with open(os.path.join(folder, 'cgroup.procs'), 'w', encoding='ascii') as f:
                f.write('0')

    def __exit__(self, *_):
        end = time.monotonic() + END_SECONDS
        for folder in self.folders:
            while not self.removed(folder) and time.monotonic() < end:
                time.sleep(0.05)

    @staticmethod
    def removed(folder):
        """@return False while processes of it are still ending"""
        for inner, _, _ in os.walk(folder, topdown=False):
            try:
                os.rmdir(inner)
            except OSError:
                return False
        return True


class Machine(contextlib.ExitStack):
    """The container."""

    def __init__(self):
        super().__init__()
        self.folder = self.root = self.process = self.other = None
        self.leader = None      # the pid of its process 1, as this machine counts

    def start(self):
        """Boot it. close() takes everything back, whatever was reached."""
        self.folder = tempfile.mkdtemp(prefix='uroce-systemd-')
        self.callback(os.rmdir, self.folder)
        need('mount', '-t', 'tmpfs', '-o', 'mode=755', 'none', self.folder)
        self.callback(run, 'umount', '--lazy', self.folder)
        self.root = os.path.join(self.folder, 'root')
        self.make_root()
        self.boot()
        self.other = self.cable()

    # ---- Its files ----
    def make_root(self):
        for name in ('dev', 'proc', 'root', 'run', 'sys', 'usr', 'var', 'etc/systemd/system'):
            os.makedirs(os.path.join(self.root, name))
        os.mkdir(os.path.join(self.root, 'tmp'), 0o777)
        for name in ('bin', 'lib', 'lib64', 'sbin'):
            os.symlink(f'usr/{name}', os.path.join(self.root, name))
        upper, work = (os.path.join(self.folder, name) for name in ('upper', 'work'))
        os.mkdir(upper)
        os.mkdir(work)
        done = run('mount', '-t', 'overlay', 'none', '-o', f'lowerdir=/usr,upperdir={upper},workdir={work}', f'{self.root}/usr')
        if done.returncode:
            raise CannotBoot(f'an overlay of /usr: {done.stdout.strip()}')
        self.callback(run, 'umount', '--lazy', f'{self.root}/usr')
        etc = os.path.join(self.root, 'etc')
        need('cp', '-a', *(path for name in COPIED if os.path.exists(path := f'/etc/{name}')), etc)
        write('root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n'
              f'{USER}:x:1000:1000::/:/bin/sh\n', etc, 'passwd')
        write(f'root:x:0:\nnogroup:x:65534:\n{USER}:x:1000:\n', etc, 'group')
        write(os.urandom(16).hex() + '\n', etc, 'machine-id')
        os.symlink('../usr/lib/os-release', os.path.join(etc, 'os-release'))
        for name in MASKED:
            os.symlink('/dev/null', os.path.join(etc, 'systemd/system', name))
        os.symlink('/lib/systemd/system/multi-user.target', os.path.join(etc, 'systemd/system/default.target'))

    def path(self, path):
        """@return where this process finds a file of the container"""
        return f'/proc/{self.leader}/root{path}'

    # ---- Its start and its end ----
    def boot(self):
        cgroup = self.enter_context(Cgroup(os.path.basename(self.folder))) if not os.path.isdir('/run/systemd/system') else None
        log = os.path.join(self.folder, 'console')
        # All capabilities and system calls: as on a machine, it's the unit that limits the daemon. EAL looks for vfio in /sys/module.
        words = ['systemd-nspawn', '--boot', '--quiet', '--register=no', *(['--keep-unit'] if cgroup else []), '--settings=no', '--machine=uroce',
                 f'--directory={self.root}', '--private-network', '--capability=all', '--system-call-filter=@known', '--bind-ro=/sys/module', '--console=pipe',
                 '--resolv-conf=off', '--timezone=off', '--link-journal=no']
        with open(log, 'w', encoding='utf-8') as f:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=f, stderr=subprocess.STDOUT, start_new_session=True,
                                            preexec_fn=cgroup.join if cgroup else None, env={**os.environ, 'SYSTEMD_NSPAWN_UNIFIED_HIERARCHY': '1'})
        self.callback(self.end)
        end = time.monotonic() + BOOT_SECONDS
        state = ''
        # Degraded: something that this machine has installed doesn't start in a container.
        while state not in ('running', 'degraded'):
            if self.process.poll() is not None or time.monotonic() > end:
                with open(log, encoding='utf-8', errors='replace') as f:
                    said = f.read().strip().splitlines()
                raise CannotBoot(f'systemd-nspawn boots no container here: {said[-1] if said else "it says nothing"} ({state or "no systemd"})')
            time.sleep(0.05)
            self.leader = self.leader or self.find_leader()
            if self.leader:
                state = self.run('systemctl', 'is-system-running').stdout.strip()

    def find_leader(self):
        """@return the pid of the container's process 1, None before it is there"""
        try:
            with open(f'/proc/{self.process.pid}/task/{self.process.pid}/children', encoding='ascii') as f:
                children = f.read().split()
            for pid in children:
                with open(f'/proc/{pid}/comm', encoding='ascii') as f:
                    if f.read().strip() == 'systemd':
                        return int(pid)
        except OSError:
            pass
        return None

    def end(self):
        """The container's processes die with its process 1."""
        if self.process.poll() is None:
            if self.leader:
                os.kill(self.leader, signal.SIGKILL)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(END_SECONDS)
            self.process.kill()
        self.process.wait()

    # ---- Programs in it ----
    def command(self, *words, user=None):
        as_user = ['setpriv', f'--reuid={user}', f'--regid={user}', '--init-groups', '--'] if user else []
        return ['nsenter', '-t', str(self.leader), '-a', *as_user, *words]

    def run(self, *words, user=None, seconds=RUN_SECONDS):
        return run(*self.command(*words, user=user), seconds=seconds)

    def need(self, *words, user=None, seconds=RUN_SECONDS):
        return need(*self.command(*words, user=user), seconds=seconds)

    # ---- The other host ----
    def cable(self):
        """@return the other host, at the other end of a cable"""
        other = Other(self)
        self.callback(other.end)
        done = run('ip', 'link', 'add', INTERFACE, 'netns', str(self.leader), 'type', 'veth', 'peer', 'name', INTERFACE, 'netns', str(other.pid))
        if done.returncode:
            raise CannotBoot(f'a veth pair: {done.stdout.strip()}')
        for pid, address in zip((self.leader, other.pid), ADDRESSES):
            for words in (['link', 'set', 'lo', 'up'], ['link', 'set', INTERFACE, 'addrgenmode', 'none'], ['address', 'add', f'{address}/24', 'dev', INTERFACE],
                          ['link', 'set', INTERFACE, 'up']):
                need('nsenter', '-t', str(pid), '-n', 'ip', *words)
        return other


class Other:
    """A host at the other end: a network namespace; its programs see the container's files."""

    def __init__(self, machine):
        self.machine = machine
        self.holder = subprocess.Popen(['unshare', '--net', 'sleep', 'infinity'], stdin=subprocess.DEVNULL, start_new_session=True)
        self.pid = self.holder.pid
        ours = os.readlink('/proc/self/ns/net')
        while os.readlink(f'/proc/{self.pid}/ns/net') == ours:
            if self.holder.poll() is not None:
                raise CannotBoot('network namespaces are refused')
            time.sleep(0.01)

    def end(self):
        self.holder.kill()
        self.holder.wait()

    def command(self, *words):
        leader = self.machine.leader
        return ['nsenter', '-t', str(leader), '-m', '-u', '-i', '-p', '-C', f'--net=/proc/{self.pid}/ns/net', *words]

    def arrived(self):
        """@return how many packets of the container have arrived"""
        with open(f'/proc/{self.pid}/net/dev', encoding='ascii') as f:
            for line in f:
                name, _, rest = line.partition(':')
                if name.strip() == INTERFACE:
                    return int(rest.split()[1])
        raise RuntimeError('its interface has gone')


def ask(path, command):
    """@return the answer to a request of telemetry, at the socket beside the daemon's"""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(RUN_SECONDS)
        s.connect(path)
        greeting = json.loads(s.recv(GREETING_BYTES))
        s.send(command.encode())
        return json.loads(s.recv(greeting['max_output_len']))[command.partition(',')[0]]
