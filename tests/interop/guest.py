# SPDX-License-Identifier: BSD-3-Clause
"""A virtual machine with Debian's kernel and its Soft-RoCE, on a tap in a network namespace of its own.

Everything in it is Debian's: the kernel and its modules (tests/kernels/packages.py), busybox to start them, and the host's own / (read-only, by
9p) for programs. Commands run in it through agent.c.
"""

import ctypes
import functools
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from uroce_lab import LabError, wires

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.append(os.path.join(HERE, '../kernels'))

import packages  # noqa: E402

INIT = os.path.join(HERE, 'guest/init')
INDEX = 200                 # the guest's addresses: 198.18.0.200, fd00:18::c8
OUR_INDEX = 254             # 198.18.0.254: where commands to the guest come from
MTU = 4500                  # RoCE MTU 4096
TAP_QUEUE = 10000           # packets: a burst of uroce's waits here for a guest that is slow
AGENT_PORT = 7018
MEMORY_MB = 768
BOOT_SECONDS = 240          # six on a machine that has a core to spare
# Each offload that may be on in a virtio device would let the kernels pass packets as no wire would carry them.
OFFLOADS = ('csum', 'gso', 'guest_csum', 'guest_tso4', 'guest_tso6', 'guest_ecn', 'guest_ufo', 'host_tso4',
            'host_tso6', 'host_ecn', 'host_ufo')
# Nor does the device filter groups: in newer kernels (6.12, not 6.1) a worker tells it which ones are wanted, perhaps only when ibv_attach_mcast() has returned and the first datagram
# has come and is dropped.
FILTERS = ('ctrl_rx', 'ctrl_rx_extra')
NEEDS = {'qemu-system-x86_64': 'qemu-system-x86', 'busybox': 'busybox-static', 'cpio': 'cpio', 'rdma': 'iproute2'}
PR_SET_PDEATHSIG = 1


class NoGuest(Exception):
    """What this machine lacks to have a guest."""


@functools.cache
def kernel():
    """@return the kernel of this machine's release of Debian (tests/kernels/packages.py), or NoGuest"""
    try:
        return packages.kernel(packages.own_suite())
    except packages.NoPackage as e:
        raise NoGuest(f'no kernel with Soft-RoCE: {e}') from None


def check():
    """NoGuest if a guest can't be had here."""
    if os.geteuid() != 0:
        raise NoGuest('a guest on a network namespace needs root')
    missing = sorted(package for program, package in NEEDS.items() if not shutil.which(program))
    if missing:
        raise NoGuest('missing: as root, apt-get install ' + ' '.join(missing))
    if not glob.glob('/usr/lib/*/libibverbs/librxe-*.so'):
        raise NoGuest('no libibverbs provider of Soft-RoCE: as root, apt-get install ibverbs-providers')
    if subprocess.run(['ldd', shutil.which('busybox')], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                      check=False).returncode == 0:
        raise NoGuest('busybox needs libraries, the guest begins without: as root, apt-get install busybox-static')
    if not os.path.exists('/dev/net/tun'):
        raise NoGuest('no /dev/net/tun: the guest is reached through a tap')
    kernel()


def add_modules(root, paths):
    """Copy modules, in the order to load them, into what becomes an initramfs; its init reads modules/order."""
    folder = os.path.join(root, 'modules')
    for path in paths:
        shutil.copy(path, folder)
    with open(os.path.join(folder, 'order'), 'w', encoding='ascii') as f:
        f.writelines(os.path.basename(path) + '\n' for path in paths)


def pack(root, image):
    """Write what is in the folder `root` as an initramfs."""
    done = subprocess.run(f'cd {root} && find . | cpio --quiet -o -H newc -R 0:0 >{image}.new', shell=True,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise LabError(f'cpio: {done.stderr}')
    os.rename(image + '.new', image)


def initramfs(build):
    """@return the image, made if there is none of this kernel and this init"""
    linux = kernel()
    folder = os.path.join(build, 'tests/interop')
    os.makedirs(folder, exist_ok=True)
    image = os.path.join(folder, f'initramfs-{linux.version}.img')
    sources = (INIT, os.path.realpath(__file__), linux.image)
    if os.path.exists(image) and os.path.getmtime(image) > max(map(os.path.getmtime, sources)):
        return image
    with tempfile.TemporaryDirectory(prefix='uroce-initramfs-') as root:
        for name in ('bin', 'modules', 'proc', 'sys', 'dev'):
            os.mkdir(os.path.join(root, name))
        shutil.copy(shutil.which('busybox'), os.path.join(root, 'bin/busybox'))
        shutil.copy(INIT, os.path.join(root, 'init'))
        add_modules(root, linux.modules(packages.GUEST_MODULES + packages.ROCE_MODULES))
        pack(root, image)
    return image


def accelerator():
    """
    KVM where the processor itself offers virtualisation; a kernel can have /dev/kvm without it and then runs
    guests only that were made for it.
    """
    chosen = os.environ.get('UROCE_INTEROP_ACCEL')
    if chosen:
        return chosen
    with open('/proc/cpuinfo', encoding='ascii', errors='replace') as f:
        flags = re.search(r'^flags\s*:(.*)$', f.read(), re.MULTILINE)
    virtual = flags and {'vmx', 'svm'} & set(flags[1].split())
    return 'kvm' if virtual and os.access('/dev/kvm', os.R_OK | os.W_OK) else 'tcg'


def with_us():
    """In the child: it ends when we do, however that happens, and hears none of our terminal's signals."""
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Guest:
    """
    A guest that has been started; ready() waits until it takes commands. It lives in a network namespace of its own, on
    a bridge that labs join.
    """

    ipv4 = wires.ipv4(INDEX)
    ipv6 = wires.ipv6(INDEX)
    hostname = 'guest'
    mac = '52:54:00:18:00:c8'
    tap = 'tap0'
    tcp = ipv4                  # where programs on the host reach the guest's by TCP
    host_tcp = wires.ipv4(1)    # where programs in the guest reach those of the host

    def __init__(self, name, build, folder):
        """@param folder  where its console goes"""
        self.build = build
        self.name = name
        self.agent = os.path.join(build, 'tests/interop/interop_agent')
        self.console = os.path.join(folder, 'console')
        self.log = os.path.join(folder, 'qemu.log')
        self.child = None
        self.image = initramfs(build)
        self._add_namespace()
        try:
            self._make_network()
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        self.began = time.monotonic()
        with open(self.log, 'a', encoding='utf-8') as log:
            self.child = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=with_us)

    def _add_namespace(self):
        self.namespace = wires.namespace(self.name, 'rxe')
        wires.add_namespace(self.namespace)

    def _make_network(self):
        ip = ['ip', '-n', self.namespace]
        wires.run(*ip, 'link', 'add', 'br0', 'mtu', str(MTU), 'type', 'bridge', 'mcast_snooping', '0')
        wires.run(*ip, 'addr', 'add', wires.ipv4(OUR_INDEX) + '/24', 'dev', 'br0')
        wires.run(*ip, 'link', 'set', 'br0', 'up')
        self._add_tap()

    def _add_tap(self):
        wires.run('ip', 'netns', 'exec', self.namespace, 'ip', 'tuntap', 'add', self.tap, 'mode', 'tap')
        wires.run('ip', '-n', self.namespace, 'link', 'set', self.tap, 'txqueuelen', str(TAP_QUEUE), 'mtu', str(MTU), 'master', 'br0', 'up')

    def join(self, lab):
        """Join the bridges of the guest and of a lab with a switch; it lasts as long as the lab."""
        switch = lab.data['switch']
        wires.run('ip', 'link', 'add', 'trunk', 'netns', switch, 'type', 'veth',
                  'peer', 'name', 'trunk', 'netns', self.namespace)
        for namespace in (switch, self.namespace):
            wires.run('ip', '-n', namespace, 'link', 'set', 'trunk', 'mtu', str(MTU), 'master', 'br0', 'up')
            wires.run('ip', 'netns', 'exec', namespace, 'ethtool', '-K', 'trunk',
                      'tx', 'off', 'sg', 'off', 'tso', 'off', 'gso', 'off', 'gro', 'off')
        # The lab before had other MAC addresses.
        self.run('ip neigh flush all')

    def _parameters(self):
        """What the kernel's command line tells the init."""
        return {'ip4': self.ipv4 + '/24', 'ip6': self.ipv6 + '/64', 'mtu': MTU, 'port': AGENT_PORT, 'agent': self.agent, 'name': self.hostname}

    def _devices(self):
        """QEMU's arguments for memory and NICs."""
        return ['-netdev', f'tap,id=net,ifname={self.tap},script=no,downscript=no,vhost=off,vnet_hdr=off',
                '-device', f'virtio-net-pci,netdev=net,mac={self.mac},rx_queue_size=1024,' +
                ','.join(f'{name}=off' for name in OFFLOADS + FILTERS)]

    def _command(self):
        append = 'console=ttyS0 quiet panic=-1 mitigations=off nokaslr random.trust_cpu=on cryptomgr.notests ' + \
            ' '.join(f'uroce.{k}={v}' for k, v in self._parameters().items())
        accel = accelerator()
        return ['ip', 'netns', 'exec', self.namespace, 'qemu-system-x86_64', '-nodefaults', '-no-user-config',
                '-display', 'none', '-no-reboot', '-machine', 'q35', '-accel', accel,
                '-cpu', 'host' if accel == 'kvm' else 'max', '-smp', '1', '-m', str(MEMORY_MB),
                '-kernel', kernel().image, '-initrd', self.image, '-append', append, '-serial', f'file:{self.console}',
                '-fsdev', 'local,id=host,path=/,security_model=none,readonly=on,multidevs=remap',
                '-device', 'virtio-9p-pci,fsdev=host,mount_tag=host', *self._devices(), '-device', 'virtio-rng-pci']

    def command(self, *words):
        """The command line on this host that runs a program in the guest; a single word is a shell command."""
        text = words[0] if len(words) == 1 else ' '.join(map(quote, words))
        return ['ip', 'netns', 'exec', self.namespace, self.agent, 'run', self.tcp, str(AGENT_PORT), text]

    def run(self, *words, timeout=120):
        return subprocess.run(self.command(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors='replace', timeout=timeout, check=False)

    def ready(self):
        """Wait until Soft-RoCE is there. @return seconds since the start"""
        end = time.monotonic() + BOOT_SECONDS
        said = ''
        while time.monotonic() < end and self.child.poll() is None:
            done = self.run('rdma link show rxe0/1')
            if done.returncode == 0 and 'ACTIVE' in done.stdout:
                return time.monotonic() - self.began
            said = done.stdout
            time.sleep(0.2)
        raise LabError(f'the guest did not come up: status {self.child.poll()}: {said}\n{self.tail()}')

    def alive(self):
        return self.child.poll() is None

    def tail(self):
        text = ''
        for path in (self.log, self.console):
            if os.path.exists(path):
                with open(path, encoding='utf-8', errors='replace') as f:
                    text += f'-- {path}\n{f.read()[-2000:]}\n'
        return text

    def kill(self):
        """It has nothing to save."""
        if self.child:
            self.child.kill()
            self.child.wait()

    def stop(self):
        self.kill()
        wires.run('ip', 'netns', 'del', self.namespace)


def quote(word):
    return "'" + word.replace("'", "'\\''") + "'"
