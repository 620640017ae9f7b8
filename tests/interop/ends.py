# SPDX-License-Identifier: BSD-3-Clause
"""The two ends of the wire, and programs between them: ours (peer.c) and Debian's."""

import os
import re
import subprocess
import tempfile
import threading

from uroce_lab import LabError, pairs, places, wires

import cells
import guest

PEER_PORT = 7019
# How long a run of cells may take: a cell, and a machine that has other things to do.
CELLS_SECONDS, CELL_SECONDS = 120, 2
PROGRAM_SECONDS = 60
LISTEN_SECONDS = 30
LISTENING = "until grep -qi ':{:04x} 0[0-9A-F]*:0000 0A' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done"


class End:
    """Where a program runs: on uroce or on Soft-RoCE."""

    def __init__(self, name, device, index, tcp, command):
        """@param tcp  where programs at the other end reach those at this one"""
        self.name = name
        self.device = device
        self.tcp = tcp
        self.ipv4 = wires.ipv4(index)
        self.ipv6 = wires.ipv6(index)
        self.command = command
        self.gids = {}

    def gid(self, family):
        """The index of the address among the device's GIDs."""
        if not self.gids:
            done = subprocess.run(self.command('ibv_devinfo', '-v', '-d', self.device), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
            found = re.findall(r'GID\[\s*(\d+)\]:\s*([0-9a-fA-F:.]+)', done.stdout)
            addresses = {gid.rstrip(',').lower(): number for number, gid in found}
            self.gids = {4: addresses.get(f'::ffff:{self.ipv4}'), 6: addresses.get(self.ipv6)}
            if None in self.gids.values():
                raise LabError(f'{self.device} has not both GIDs:\n{done.stdout}')
        return self.gids[family]


def ends(lab, linux):
    uroce = End(cells.UROCE, 'uroce0', 1, linux.host_tcp, lambda *words: lab.command('h1', *words))
    rxe = End(cells.RXE, 'rxe0', guest.INDEX, linux.tcp, linux.command)
    return {uroce.name: uroce, rxe.name: rxe}


def run_cells(lab, linux, some, report):
    """
    Try cells, uroce leading. @param report  called with (cell, '' or what was wrong, ms) for each that was tried
    @return '' or why it ended early
    """
    both = ends(lab, linux)
    uroce, rxe = both[cells.UROCE], both[cells.RXE]
    peer = os.path.join(places.build_dir(), 'tests/interop/interop_peer')
    with tempfile.NamedTemporaryFile('w', prefix='uroce-cells-') as f, tempfile.TemporaryFile('w+') as said:
        f.writelines(cell.line() + '\n' for cell in some)
        f.flush()
        lead = subprocess.Popen(uroce.command(peer, 'lead', uroce.device, uroce.ipv4, uroce.ipv6, str(PEER_PORT),
                                              f.name),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, text=True)
        follow = subprocess.Popen(rxe.command(peer, 'follow', rxe.device, rxe.ipv4, rxe.ipv6, uroce.tcp,
                                              str(PEER_PORT)), stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        # Whoever is stuck is ended, which ends the loop below.
        watch = threading.Timer(CELLS_SECONDS + CELL_SECONDS * len(some), lambda: (lead.kill(), follow.kill()))
        watch.start()
        done = 0
        try:
            for cell, line in zip(some, lead.stdout):
                _, ms, problem = line.rstrip('\n').split('\t')
                report(cell, '' if problem == 'ok' else problem, int(ms))
                done += 1
        finally:
            watch.cancel()
            for child in (lead, follow):
                if done < len(some):
                    child.kill()
                child.wait()
            lead.stdout.close()
        said.seek(0)
        return '' if done == len(some) else f'ended after {done} of {len(some)} cells: {said.read()}'


def run_program(both, server, program, options, family, port):
    """
    One of Debian's programs. @param server  the name of the end that waits for the other one
    @return '' or what went wrong
    """
    client = cells.RXE if server == cells.UROCE else cells.UROCE
    gid_option = '-g' if program.startswith('ibv_') else '-x'
    words = {name: [program, '-d', end.device, gid_option, str(end.gid(family)), '-p', str(port), *options.split()]
             for name, end in both.items()}
    with tempfile.TemporaryFile('w+') as server_said, tempfile.TemporaryFile('w+') as client_said:
        waiting = subprocess.Popen(both[server].command(*words[server]), stdin=subprocess.DEVNULL, stdout=server_said,
                                   stderr=subprocess.STDOUT)
        try:
            subprocess.run(both[server].command('sh', '-c', LISTENING.format(port)), stdin=subprocess.DEVNULL,
                           timeout=LISTEN_SECONDS, check=False)
            asking = subprocess.run(both[client].command(*words[client], both[server].tcp), stdin=subprocess.DEVNULL,
                                    stdout=client_said, stderr=subprocess.STDOUT, timeout=PROGRAM_SECONDS, check=False)
            statuses = waiting.wait(pairs.GRACE_SECONDS), asking.returncode
        except subprocess.TimeoutExpired as e:
            statuses = str(e), None
        finally:
            waiting.kill()
            waiting.wait()
        server_said.seek(0)
        client_said.seek(0)
        text = client_said.read()
        said = f'{server_said.read()}\n{text}'
    if statuses != (0, 0):
        return f'status {statuses[0]}, {statuses[1]}\n{said}'
    try:
        pairs.result(program, text)
    except LabError as e:
        return str(e)
    return ''
