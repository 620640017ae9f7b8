# SPDX-License-Identifier: BSD-3-Clause
"""The NICs that QEMU emulates and DPDK has drivers for."""

# igb keeps slot + 0x10 and the next one for functions that it may have.
SLOTS = (0x06, 0x08, 0x0c)      # of the NICs on PCI bus 0
KERNEL_SLOT = 0x0a              # of the one that stays with the guest's kernel, for Soft-RoCE
PORT_SLOTS = (0x04, 0x05)       # of the root ports for NICs that can be unplugged; those in slots of bus 0 can't
ADDRESSES = tuple(f'0000:00:{slot:02x}.0' for slot in SLOTS)
PLUGGED_ADDRESSES = ('0000:01:00.0', '0000:02:00.0')    # behind the root ports
KERNEL_ADDRESS = f'0000:00:{KERNEL_SLOT:02x}.0'


class Nic:
    def __init__(self, device, queues, mtu=4200, properties='', iommu_properties='', backend_queues=1):
        """
        @param device  QEMU's name of it
        @param queues  pairs that DPDK's driver offers
        @param mtu  the largest IP MTU that it has, at most 4200
        @param properties  of QEMU's device
        @param iommu_properties  those that it needs behind an IOMMU
        @param backend_queues  of the tap, where the device wants that
        """
        self.device, self.queues, self.mtu = device, queues, mtu
        self.properties, self.iommu_properties, self.backend_queues = properties, iommu_properties, backend_queues

    def arguments(self, number, iommu):
        """QEMU's, for NIC `number` on tap `number`."""
        return ['-netdev', tap(number, self.backend_queues), '-device', self.words(number, iommu, f'addr={SLOTS[number]:#x}')]

    def plugged(self, number):
        """The same for one that can be unplugged; it has an IOMMU."""
        port = ['-device', f'pcie-root-port,id=port{number},chassis={number + 1},addr={PORT_SLOTS[number]:#x}']
        return [*port, '-netdev', tap(number, self.backend_queues), '-device', self.words(number, True, f'bus=port{number}')]

    def again(self, number):
        """@return the arguments of QEMU's monitor that plug it in again"""
        driver, *properties = self.words(number, True, f'bus=port{number}').split(',')
        return {'driver': driver, **dict(text.split('=', 1) for text in properties)}

    def words(self, number, iommu, place):
        words = [self.device, f'netdev=net{number}', f'id=nic{number}', f'mac=52:54:00:18:01:{number:02x}', place]
        words += [self.properties] if self.properties else []
        words += [self.iommu_properties] if iommu and self.iommu_properties else []
        return ','.join(words)


def tap(number, queues):
    more = f',queues={queues}' if queues > 1 else ''
    return f'tap,id=net{number},ifname=tap{number},script=no,downscript=no,vhost=off{more}'


NICS = {nic.device: nic for nic in (
    Nic('virtio-net-pci', queues=2, properties='mq=on,vectors=8,rss=on,host_mtu=9000,disable-legacy=on',
        iommu_properties='iommu_platform=on', backend_queues=2),
    Nic('e1000e', queues=1),
    Nic('e1000', queues=1),
    Nic('vmxnet3', queues=2),
    Nic('igb', queues=2),
)}
