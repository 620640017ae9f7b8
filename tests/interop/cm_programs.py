# SPDX-License-Identifier: BSD-3-Clause
"""Debian's rdma_cm programs with uroce on one side and Soft-RoCE on the other."""

import subprocess
import tempfile
import time

from uroce_lab import pairs, telemetry

import cells

READY_SECONDS = 20
PROGRAM_SECONDS = 90
POLL_SECONDS = 0.2
TRIES = 8                   # of a client that is refused: perftest connects twice, and doesn't wait for the second listener
REFUSED = ('RDMA_CM_EVENT_REJECTED', 'Connection refused')
GROUP = {4: '239.18.0.9', 6: 'ff0e::18:9'}
JOINED = 'joined dgid'

# (what the server runs, what the client runs, address families). {s}: the server's address, {c}: the client's, {g}: a group.
# perftest: -o as in plan.py; with -R it takes IPv4 addresses only.
PROGRAMS = (
    ('rping -s -v -V -C 30 -a {s}', 'rping -c -v -V -C 30 -a {s}', (4, 6)),
    ('rping -s -V -C 30 -S 60000 -q -a {s}', 'rping -c -V -C 30 -S 60000 -q -a {s}', (4,)),
    ('ucmatose -b {s} -c 10', 'ucmatose -s {s} -c 10', (4, 6)),
    ('ucmatose -b {s} -m -t 96', 'ucmatose -s {s} -m -t 96', (4,)),
    ('udaddy -b {s}', 'udaddy -s {s}', (4, 6)),
    ('rdma_server', 'rdma_client -s {s}', (4,)),
    ('rdma_xserver', 'rdma_xclient -s {s}', (4,)),
    # Soft-RoCE's end can't join an IPv6 group through rdma_cm.
    ('mckey -m {g} -b {s}', 'mckey -m {g} -s -b {c}', (4,)),
    # rdma-core's rsockets of datagrams can't be had on RoCE: rconnect() fails.
    ('rstream -T b -T v -S 30000 -C 10 -I 3 -b {s}', 'rstream -T b -T v -S 30000 -C 10 -I 3 -s {s}', (4, 6)),
    ('rstream -T n -S 64 -C 2000 -I 2 -b {s}', 'rstream -T n -S 64 -C 2000 -I 2 -s {s}', (4,)),
    ('riostream -T b -T v -S 5000 -C 5 -I 3 -b {s}', 'riostream -T b -T v -S 5000 -C 5 -I 3 -s {s}', (4,)),
    ('ib_write_bw -R -F -n 100 -s 65536', 'ib_write_bw -R -F -n 100 -s 65536 {s}', (4,)),
    ('ib_send_lat -R -F -n 100 -s 1000', 'ib_send_lat -R -F -n 100 -s 1000 {s}', (4,)),
    ('ib_read_bw -R -F -o 16 -n 100 -s 5000', 'ib_read_bw -R -F -o 16 -n 100 -s 5000 {s}', (4,)),
    ('ib_send_bw -R -F -n 100', 'ib_send_bw -R -F -n 100 {s}', (4,)),
)
SOME = tuple(PROGRAMS[i] for i in (0, 2, 4))


def row(server_command):
    """@return (program, options) for the table"""
    program, _, options = server_command.partition(' ')
    return program, options.replace('{s}', 'ADDRESS').replace('{g}', 'GROUP')


def listens(lab, linux, server):
    if server == cells.UROCE:
        return telemetry.ask(lab.data, lab.hosts['h1'], '/uroce/cm')['listeners'] > 0
    return 'LISTEN' in linux.run('rdma', 'res', 'show', 'cm_id').stdout


def text_of(f):
    f.seek(0)
    return f.read()


def wait_ready(lab, linux, server, command, child, said):
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end and child.poll() is None:
        if JOINED in text_of(said) if command.startswith('mckey') else listens(lab, linux, server):
            return
        time.sleep(POLL_SECONDS)


def once(lab, linux, both, server, commands):
    """@return (server's status, client's, what they said)"""
    client = cells.RXE if server == cells.UROCE else cells.UROCE
    words = [['stdbuf', '-oL', *command.split()] for command in commands]
    with tempfile.TemporaryFile('w+') as server_said, tempfile.TemporaryFile('w+') as client_said:
        waiting = subprocess.Popen(both[server].command(*words[0]), stdin=subprocess.DEVNULL, stdout=server_said,
                                   stderr=subprocess.STDOUT)
        asking = None
        try:
            wait_ready(lab, linux, server, commands[0], waiting, server_said)
            asking = subprocess.run(both[client].command(*words[1]), stdin=subprocess.DEVNULL, stdout=client_said,
                                    stderr=subprocess.STDOUT, timeout=PROGRAM_SECONDS, check=False).returncode
            status = waiting.wait(pairs.GRACE_SECONDS)
        except subprocess.TimeoutExpired as e:
            status = str(e)
        finally:
            waiting.kill()
            waiting.wait()
        return status, asking, f'{text_of(server_said)}\n{text_of(client_said)}'


def run(lab, linux, both, server, commands, family):
    """
    @param server  the name of the end that waits for the other one; commands: (its, the other's)
    @return '' or what went wrong
    """
    client = cells.RXE if server == cells.UROCE else cells.UROCE
    address = {name: end.ipv4 if family == 4 else end.ipv6 for name, end in both.items()}
    commands = [command.format(s=address[server], c=address[client], g=GROUP[family]) for command in commands]
    for _ in range(TRIES):
        status, asking, said = once(lab, linux, both, server, commands)
        if (status, asking) == (0, 0):
            return ''
        if not any(text in said for text in REFUSED):
            break
    return f'status {status}, {asking}\n{said}'
