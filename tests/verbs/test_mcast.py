#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_mcast WIRE PROGRAM: UD multicast between two hosts, IPv4 and IPv6 groups."""

import os
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, '../../scripts')]

from labs import SKIPPED, Skip, lab_up  # noqa: E402
from uroce_lab import pairs  # noqa: E402

WIRES = {'memif': (), 'af_packet': ('--wire', 'veth', '--pmd', 'af_packet'), 'af_xdp': ('--wire', 'veth', '--pmd', 'af_xdp')}
GROUPS = {4: '239.18.0.1', 6: 'ff0e::18:1'}
SECONDS = 60


def says(side, word):
    """Whether the program gets so far."""
    end = time.monotonic() + SECONDS
    while word not in side.text().splitlines():
        if side.child.poll() is not None or time.monotonic() > end:
            return word in side.text().splitlines()
        time.sleep(0.02)
    return True


def send(lab, program, family):
    done = lab.run('h1', program, 'send', str(lab.gid_index('h1', family)), GROUPS[family], timeout=SECONDS)
    print('sender:', done.stdout.strip())
    return done.returncode == 0


def run(lab, program, family):
    receiver = pairs.Side(lab, 'h2', [program, 'recv', str(lab.gid_index('h2', family)), GROUPS[family]])
    try:
        ok = (says(receiver, 'ready') and send(lab, program, family) and
              says(receiver, 'detached') and send(lab, program, family) and says(receiver, 'ok') and
              receiver.wait(time.monotonic() + SECONDS))
    finally:
        receiver.kill()
        # Also what the library has to say of refused attachments.
        print(receiver.report())
    return ok and receiver.status == 0


def main():
    wire, program = sys.argv[1:]
    try:
        with lab_up(*WIRES[wire], name=f'm{os.getpid()}') as lab:
            ok = all([run(lab, program, family) for family in GROUPS])
            if not ok or not lab.whole():
                print(lab.logs())
            return 0 if ok and lab.whole() else 1
    except Skip as why:
        print(f'skipped: {why}')
        return SKIPPED


if __name__ == '__main__':
    sys.exit(main())
