# SPDX-License-Identifier: BSD-3-Clause
"""The virtual machine: an emulated IOMMU, two NICs for DPDK, and one that its kernel keeps. A bridge joins them."""

import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, '../kernels'), os.path.join(HERE, '../interop'), os.path.join(HERE, '../../scripts')]

import guest  # noqa: E402
import machine  # noqa: E402
from packages import GUEST_MODULES, ROCE_MODULES  # noqa: E402

import nics  # noqa: E402

MEMORY_MB = 2560
MTU = 9000
TAP_QUEUE = 10000           # packets: a burst waits here for a device whose CPU is busy
INSIDE = os.path.join(HERE, 'inside.py')
# QEMU starts in a network namespace of its own, which ends with it. $0: how many taps; $1: how many queues those of the first two have.
NETWORK = f'''
set -e
ip link add br0 mtu {MTU} type bridge mcast_snooping 0
ip link set br0 up
for i in 0 1 2; do
	multi=
	[ $i = 2 ] || [ "$0" = 1 ] || multi=multi_queue
	ip tuntap add tap$i mode tap $multi
	ip link set tap$i txqueuelen {TAP_QUEUE} mtu {MTU} master br0 up
done
exec "$@"
'''
KERNEL_NIC = ['-netdev', nics.tap(2, 1) + ',vnet_hdr=off', '-device',
              f'virtio-net-pci,netdev=net2,mac=52:54:00:18:01:02,addr={nics.KERNEL_SLOT:#x},rx_queue_size=1024,'
              + ','.join(f'{name}=off' for name in guest.OFFLOADS)]
IOMMU = ['-device', 'intel-iommu,intremap=on,caching-mode=on']


def start(kernel, folder, nic, build, parts, iommu=True):
    """@return the machine.Machine; it runs these parts of inside.py and ends."""
    prefix = ['unshare', '--net', 'sh', '-c', NETWORK, str(nic.backend_queues)]
    # The IOMMU comes first: devices that exist before it bypass it.
    devices = IOMMU if iommu else []
    for number in range(len(nics.SLOTS)):
        devices = devices + nic.arguments(number, iommu)
    return machine.Machine(kernel, folder, INSIDE, build, kernel.folder, nic.device, *parts, modules=GUEST_MODULES + ROCE_MODULES,
                           memory_mb=MEMORY_MB, machine='q35,kernel-irqchip=split' if iommu else 'q35', prefix=prefix,
                           devices=devices + KERNEL_NIC, parameters='intel_iommu=on' if iommu else '')
