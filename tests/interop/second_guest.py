# SPDX-License-Identifier: BSD-3-Clause
"""A second guest beside that of guest.py, on its bridge: both ends of the wire are Linux's Soft-RoCE."""

import os

import guest
from uroce_lab import wires

INDEX = guest.INDEX + 1


class SecondGuest(guest.Guest):
    ipv4 = wires.ipv4(INDEX)
    ipv6 = wires.ipv6(INDEX)
    tcp = ipv4
    hostname = guest.Guest.hostname + '2'
    mac = '52:54:00:18:00:c9'
    tap = 'tap1'

    def __init__(self, first, folder):
        self.first = first
        folder = os.path.join(folder, self.hostname)
        os.mkdir(folder)
        super().__init__(None, first.build, folder)

    def _add_namespace(self):
        self.namespace = self.first.namespace

    def _make_network(self):
        self._add_tap()

    def stop(self):
        """The namespace is the first one's."""
        self.kill()
