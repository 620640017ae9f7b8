# SPDX-License-Identifier: BSD-3-Clause
"""tgt's target and libiscsi's initiator over iSER: an image is read through a LUN by qemu-img, another is written, and both compared."""

import filecmp
import glob
import json
import os
import re
import time

from rows import READY_SECONDS, SERVER, Row, cm_listens, require, until
from uroce_lab import pairs

PORT = 3260
CONTROL = str(os.getpid())  # tgtd's: other daemons of the machine have theirs
TARGET, INITIATOR = 'iqn.2026-01.org.example:disk', 'iqn.2026-01.org.example:h2'
BYTES = 32 << 20
ADDRESS = f'{SERVER}:{PORT}'
URL = f'iser://{ADDRESS}/{TARGET}/1'
# libiscsi 1.19 has no buffer for what is longer than 256 KiB (ENOMEM), and doesn't tell qemu; blkdebug splits such requests.
LONGEST = 128 << 10
LUN = 'json:' + json.dumps({'driver': 'raw', 'file': {
    'driver': 'blkdebug', 'max-transfer': LONGEST, 'image': {
        'driver': 'iscsi', 'transport': 'iser', 'portal': ADDRESS, 'target': TARGET, 'lun': 1, 'initiator-name': INITIATOR}}})


def ended(lab, host, *program, end):
    side = pairs.Side(lab, host, list(program))
    try:
        side.wait(end)
    finally:
        side.kill()
    require(side.status == 0, 'the program failed', side)
    return side.text()


def image(path):
    with open(path, 'wb') as f:
        f.write(os.urandom(BYTES))


def disk(lab, seconds):
    end = time.monotonic() + seconds
    path = {name: os.path.join(lab.data['dir'], 'iser-' + name) for name in ('disk', 'copy', 'new')}
    image(path['disk'])
    image(path['new'])

    def admin(*words):
        ended(lab, 'h1', 'tgtadm', '-C', CONTROL, '--lld', 'iser', *words, end=end)

    # By default it takes a pool of a GiB.
    target = pairs.Side(lab, 'h1', ['tgtd', '-f', '-C', CONTROL, '--iscsi', f'portal={ADDRESS}', '--iser', 'pool_sz_mb=64'])
    try:
        until('tgtd does not listen', lambda: cm_listens(lab)(target) or target.child.poll() is not None, READY_SECONDS, target)
        admin('--op', 'new', '--mode', 'target', '--tid', '1', '-T', TARGET)
        admin('--op', 'new', '--mode', 'logicalunit', '--tid', '1', '--lun', '1', '-b', path['disk'])
        # tgt 1.0.85 wants the address and the name over iSER; over TCP one of them is enough.
        admin('--op', 'bind', '--mode', 'target', '--tid', '1', '-I', 'ALL')
        admin('--op', 'bind', '--mode', 'target', '--tid', '1', '-Q', INITIATOR)
        inquiry = ended(lab, 'h2', 'iscsi-inq', '-i', INITIATOR, URL, end=end)
        require('VIRTUAL-DISK' in inquiry, 'iscsi-inq says nothing of the disk:\n' + inquiry)
        read = ended(lab, 'h2', 'iscsi-perf', '-i', INITIATOR, '-m', '16', '-b', '128', '-t', '2', URL, end=end)
        require(re.search(r'^iops average [1-9].*\n\nfinished', read, re.M), 'iscsi-perf has no result:\n' + read)
        ended(lab, 'h2', 'qemu-img', 'convert', '-f', 'raw', '-O', 'raw', LUN, path['copy'], end=end)
        require(filecmp.cmp(path['disk'], path['copy'], shallow=False), 'the copy of the disk differs')
        ended(lab, 'h2', 'qemu-img', 'convert', '-n', '-f', 'raw', '-O', 'raw', path['new'], LUN, end=end)
        require(filecmp.cmp(path['disk'], path['new'], shallow=False), 'the disk is not what was written')
    finally:
        target.kill()
        for path in glob.glob(f'/run/tgtd/socket.{CONTROL}*'):
            os.remove(path)


ROWS = [Row('iser', {'tgt': 'tgtd', 'libiscsi-bin': 'iscsi-inq', 'qemu-utils': 'qemu-img',
                     'qemu-block-extra': '/usr/lib/*/qemu/block-iscsi.so'}, disk, seconds=90, daily=False)]
