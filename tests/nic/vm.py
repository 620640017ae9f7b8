# SPDX-License-Identifier: BSD-3-Clause
"""The virtual machine: an emulated IOMMU, two NICs for DPDK, and one that its kernel keeps. A bridge joins them. Or two machines on one bridge, with a NIC for
DPDK each."""

import os
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
MTU = 9000
TAP_QUEUE = 10000           # packets: a burst waits here for a device whose CPU is busy
INSIDE = os.path.join(HERE, 'inside.py')
# QEMU starts in a network namespace of its own, which ends with it. $0: how many taps; $1: how many queues those of the first two have.
NETWORK = f'''
set -e
ip link add br0 mtu {MTU} type bridge mcast_snooping 0
ip link set br0 up
for i in 0 1 2 3; do
	multi=
	[ $i -ge 2 ] || [ "$0" = 1 ] || multi=multi_queue
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


def start(kernel, folder, nic, build, parts, iommu=True):
    """@return the machine.Machine; it runs these parts of inside.py and ends."""
    return _start(kernel, folder, nic, build, parts, iommu, _new_network(nic), range(len(nics.SLOTS)), 2)


def start_two(kernel, folders, nic, build, parts):
    """
    @param folders  of the two
    @param parts  what each runs
    @return two machine.Machine with a NIC for DPDK and one of their kernels each
    """
    first = _start(kernel, folders[0], nic, build, parts[0], True, _new_network(nic), (0,), 2)
    try:
        return first, _start(kernel, folders[1], nic, build, parts[1], True, _network_of(first), (1,), 3)
    except BaseException:
        first.stop()
        raise


def _start(kernel, folder, nic, build, parts, iommu, prefix, numbers, kernel_tap):
    # The IOMMU comes first: devices that exist before it bypass it.
    devices = IOMMU if iommu else []
    for number in numbers:
        devices = devices + nic.arguments(number, iommu)
    return machine.Machine(kernel, folder, INSIDE, build, kernel.folder, nic.device, *parts, modules=GUEST_MODULES + ROCE_MODULES,
                           memory_mb=MEMORY_MB, machine='q35,kernel-irqchip=split' if iommu else 'q35', prefix=prefix,
                           devices=devices + kernel_nic(kernel_tap), parameters=TIMER + ('intel_iommu=on' if iommu else ''))


def _new_network(nic):
    return ['unshare', '--net', 'sh', '-c', NETWORK, str(nic.backend_queues)]


def _network_of(virtual):
    """@return the command that starts another one in the network of this one, once that is there"""
    prefix = ['nsenter', f'--net=/proc/{virtual.child.pid}/ns/net']
    end = time.monotonic() + NETWORK_SECONDS
    while time.monotonic() < end and virtual.child.poll() is None:
        if subprocess.run([*prefix, 'sh', '-c', 'ip link show tap3 up | grep -q br0'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return prefix
        time.sleep(0.1)
    raise LabError(f'the first virtual machine has no network:\n{virtual.tail()}')
