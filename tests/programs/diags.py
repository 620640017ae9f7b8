# SPDX-License-Identifier: BSD-3-Clause
"""Programs that show the device: what they print must be what the daemon has. What they can't: docs/programs.md."""

import re

from rows import Row, require
from uroce_lab import pairs


def said(lab, *program):
    done = lab.run('h1', *program)
    require(done.returncode == 0, f'{" ".join(program)}: status {done.returncode}:\n{done.stdout}')
    return done.stdout


def sysfs(lab, name):
    return said(lab, 'cat', f'/sys/class/infiniband/{pairs.DEVICE}/{name}').strip()


def devinfo(lab, _):
    text = said(lab, 'ibv_devinfo', '-v', '-d', pairs.DEVICE)
    fields = dict(re.findall(r'^\s*(\w+):\s+(\S+)', text, re.M))
    require(fields.get('node_guid') == sysfs(lab, 'node_guid'), 'another GUID:\n' + text)
    for name, value in (('transport', 'InfiniBand'), ('state', 'PORT_ACTIVE'), ('link_layer', 'Ethernet'), ('active_mtu', '4096'),
                        ('max_sge', '32'), ('phys_port_cnt', '1')):
        require(fields.get(name) == value, f'{name} is {fields.get(name)}, not {value}:\n{text}')
    gids = re.findall(r'GID\[\s*\d+\]:\s*([0-9a-f:.]+), (.*)', text)
    require({'::ffff:198.18.0.1', 'fd00:18::1'} <= {gid for gid, _ in gids}, 'GIDs are missing:\n' + text)
    require({kind for _, kind in gids} == {'RoCE v2'}, 'a GID of another kind:\n' + text)


ROWS = [Row('ibv_devinfo', {'ibverbs-utils': 'ibv_devinfo'}, devinfo, seconds=20)]
