#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_mcast WIRE PROGRAM: UD multicast between two hosts, IPv4 and IPv6 groups."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, '../../scripts')]

from labs import SKIPPED, Skip, lab_up  # noqa: E402

WIRES = {'memif': (), 'af_packet': ('--wire', 'veth', '--pmd', 'af_packet'), 'af_xdp': ('--wire', 'veth', '--pmd', 'af_xdp')}
GROUPS = {4: '239.18.0.1', 6: 'ff0e::18:1'}
SECONDS = 60


def says(child, word):
    """Whether the program's next line is this word."""
    line = child.stdout.readline().strip()
    if line != word:
        print(f'receiver: "{line}" instead of "{word}"')
    return line == word


def send(lab, program, family):
    done = lab.run('h1', program, 'send', str(lab.gid_index('h1', family)), GROUPS[family], timeout=SECONDS)
    print('sender:', done.stdout.strip())
    return done.returncode == 0


def run(lab, program, family):
    command = lab.command('h2', program, 'recv', str(lab.gid_index('h2', family)), GROUPS[family])
    # What the library has to say of refused attachments goes where ours goes.
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as child:
        ok = (says(child, 'ready') and send(lab, program, family) and
              says(child, 'detached') and send(lab, program, family) and says(child, 'ok'))
        if not ok:
            child.kill()
        return child.wait(SECONDS) == 0 and ok


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
