# SPDX-License-Identifier: BSD-3-Clause
"""The virtual machine: an emulated IOMMU, two or three NICs for DPDK, and one that its kernel keeps. A bridge joins them. Or two machines on one bridge, with a
NIC for DPDK each."""

import json
import os
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, '../kernels'), os.path.join(HERE, '../interop'), os.path.join(HERE, '../../scripts')]

import guest  # noqa: E402
import machine  # noqa: E402
from packages import GUEST_MODULES, ROCE_MODULES  # noqa: E402
from uroce_lab import LabError  # noqa: E402

import nics  # noqa: E402

MEMORY_MB = 2560
NETWORK_SECONDS = 60
MONITOR, MONITOR_SECONDS = 'monitor', 60
PLUGGED = 'unplug'          # the part whose first two NICs can be unplugged
MTU = 9000
TAP_QUEUE = 10000           # packets: a burst waits here for a device whose CPU is busy
INSIDE = os.path.join(HERE, 'inside.py')
KERNEL_TAP, FAR_KERNEL_TAP = 3, 4
# QEMU starts in a network namespace of its own, which ends with it. $0: how many queues the taps of the NICs for DPDK have; the last two are the kernels'.
NETWORK = f'''
set -e
ip link add br0 mtu {MTU} type bridge mcast_snooping 0
ip link set br0 up
for i in 0 1 2 3 4; do
	multi=
	[ $i -ge 3 ] || [ "$0" = 1 ] || multi=multi_queue
	ip tuntap add tap$i mode tap $multi
	ip link set tap$i txqueuelen {TAP_QUEUE} mtu {MTU} master br0 up
done
exec "$@"
'''
# The kernel panics if ticks of the timer don't come while it looks for them, as on a busy machine.
TIMER = 'no_timer_check '
IOMMU = ['-device', 'intel-iommu,intremap=on,caching-mode=on']


def kernel_nic(tap):
    return ['-netdev', nics.tap(tap, 1) + ',vnet_hdr=off', '-device',
            f'virtio-net-pci,netdev=net{tap},mac=52:54:00:18:01:{tap:02x},addr={nics.KERNEL_SLOT:#x},rx_queue_size=1024,'
            + ','.join(f'{name}=off' for name in guest.OFFLOADS + guest.FILTERS)]


class Maker:
    """Makes virtual machines with NICs of one kind."""

    def __init__(self, qemu, kernel, nic, build):
        self.qemu, self.kernel, self.nic, self.build = qemu, kernel, nic, build

    def start(self, folder, parts, iommu=True):
        """@return the machine.Machine; it runs these parts of inside.py and ends."""
        if PLUGGED in parts:
            devices = self.nic.plugged(0) + self.nic.plugged(1) + self.nic.arguments(2, True)
        else:
            devices = self.nic.arguments(0, iommu) + self.nic.arguments(1, iommu)
        return self._start(folder, parts, devices, _new_network(self.nic), iommu=iommu)

    def start_two(self, folders, parts):
        """
        @param folders  of the two
        @param parts  what each runs
        @return two machine.Machine with a NIC for DPDK and one of their kernels each
        """
        first = self._start(folders[0], parts[0], self.nic.arguments(0, True), _new_network(self.nic))
        try:
            return first, self._start(folders[1], parts[1], self.nic.arguments(1, True), _network_of(first), kernel_tap=FAR_KERNEL_TAP)
        except BaseException:
            first.stop()
            raise

    def _start(self, folder, parts, devices, prefix, iommu=True, kernel_tap=KERNEL_TAP):
        # The IOMMU comes first: devices that exist before it bypass it.
        devices = ['-qmp', f'unix:{os.path.join(folder, MONITOR)},server=on,wait=off', *(IOMMU if iommu else ()), *devices]
        return machine.Machine(self.kernel, folder, INSIDE, self.build, self.kernel.folder, self.nic.device, *parts, modules=GUEST_MODULES + ROCE_MODULES,
                               memory_mb=MEMORY_MB, machine='q35,kernel-irqchip=split' if iommu else 'q35', prefix=prefix,
                               devices=devices + kernel_nic(kernel_tap), parameters=TIMER + ('intel_iommu=on' if iommu else ''), qemu=self.qemu)


class Monitor:
    """QEMU's monitor of the machine in a folder."""

    def __init__(self, folder):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(MONITOR_SECONDS)
        self.socket.connect(os.path.join(folder, MONITOR))
        self.said = self.socket.makefile('r', encoding='utf-8')
        self.said.readline()        # who it is
        self.events = []
        self.ask('qmp_capabilities')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.said.close()
        self.socket.close()

    def ask(self, command, **arguments):
        self.socket.sendall(json.dumps({'execute': command, 'arguments': arguments}).encode() + b'\n')
        while 'return' not in (answer := json.loads(self.said.readline())):
            if 'error' in answer:
                raise LabError(f'{command} {arguments}: {answer["error"]}')
            self.events.append(answer)

    def wait(self, event, device):
        """Until it reports the event of the device (QEMU's id)."""
        while not any(told.get('event') == event and told['data'].get('device') == device for told in self.events):
            try:
                self.events.append(json.loads(self.said.readline()))
            except TimeoutError:
                raise LabError(f'no {event} of {device} within {MONITOR_SECONDS} s: {self.events}') from None


def set_link(folder, device, up):
    """Plug in or pull out the cable of a NIC (QEMU's id) of the machine in this folder."""
    with Monitor(folder) as monitor:
        monitor.ask('set_link', name=device, up=up)


def set_plugged(folder, nic, number, there):
    """Plug in or take away a NIC of the machine in this folder: it is away when the machine's kernel has let it go."""
    with Monitor(folder) as monitor:
        if there:
            monitor.ask('device_add', **nic.again(number))
        else:
            monitor.ask('device_del', id=f'nic{number}')
            monitor.wait('DEVICE_DELETED', f'nic{number}')


def _new_network(nic):
    return ['unshare', '--net', 'sh', '-c', NETWORK, str(nic.backend_queues)]


def _network_of(virtual):
    """@return the command that starts another one in the network of this one, once that is there"""
    prefix = ['nsenter', f'--net=/proc/{virtual.child.pid}/ns/net']
    end = time.monotonic() + NETWORK_SECONDS
    while time.monotonic() < end and virtual.child.poll() is None:
        if subprocess.run([*prefix, 'sh', '-c', f'ip link show tap{FAR_KERNEL_TAP} up | grep -q br0'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return prefix
        time.sleep(0.1)
    raise LabError(f'the first virtual machine has no network:\n{virtual.tail()}')
