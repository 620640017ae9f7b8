# SPDX-License-Identifier: BSD-3-Clause
"""The guest of guest.py, whose Soft-RoCE is on a virtio-net device that a daemon on the host has by vhost-user: neither tap nor bridge. Programs reach
each other's TCP ports by QEMU's user networking, on a device of its own."""

import guest

HOST_TCP = '10.0.2.2'       # QEMU's names for the host and the guest
GUEST_TCP = '10.0.2.15'


class VhostGuest(guest.Guest):
    tcp = '127.0.0.1'       # in the guest's namespace, where QEMU is
    host_tcp = HOST_TCP

    def __init__(self, name, build, folder, socket, ports):
        """
        @param socket  at which the daemon waits
        @param ports  TCP ports of the guest
        """
        self.socket, self.ports = socket, ports
        super().__init__(name, build, folder)

    def _make_network(self):
        """Only lo."""

    def _parameters(self):
        return super()._parameters() | {'control4': GUEST_TCP + '/24'}

    def _devices(self):
        # vectors=0: without KVM, QEMU 7.2 crashes as soon as a device of vhost-user has MSI-X interrupts.
        forward = ''.join(f',hostfwd=tcp:{self.tcp}:{port}-{GUEST_TCP}:{port}' for port in (guest.AGENT_PORT, *self.ports))
        return ['-object', f'memory-backend-memfd,id=memory,size={guest.MEMORY_MB}M,share=on', '-machine', 'memory-backend=memory',
                '-chardev', f'socket,id=vhost,path={self.socket},reconnect=1', '-netdev', 'vhost-user,id=net,chardev=vhost',
                '-device', f'virtio-net-pci,netdev=net,mac={self.mac},host_mtu={guest.MTU},rx_queue_size=1024,vectors=0',
                '-netdev', 'user,id=control,ipv6=off' + forward, '-device', 'virtio-net-pci,netdev=control,romfile=']
