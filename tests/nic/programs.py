# SPDX-License-Identifier: BSD-3-Clause
"""In the virtual machine: programs in pairs, and what must come of them."""

import os
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), '../interop'))

import cells  # noqa: E402
import hosts  # noqa: E402
from uroce_lab import pairs  # noqa: E402

SECONDS = 90
LISTEN_SECONDS = 30
PORT = 18515
CM_PORT = 7471
MPI_SECONDS = 240
MPI_MIN_PACKETS = 1000      # what the program sends is more by far


class Failed(Exception):
    """What is wrong, with everything there is to see."""


def finish(server, client, seconds):
    """Wait until both have ended. @return the pairs.Pair"""
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end and (server.child.poll() is None or client.child.poll() is None):
            if server.status or client.status:
                end = min(end, time.monotonic() + pairs.GRACE_SECONDS)
            (client if client.child.poll() is None else server).wait(min(end, time.monotonic() + 0.05))
    finally:
        server.kill()
        client.kill()
    return pairs.Pair(server, client, seconds)


def outputs(lab, pair):
    """@return what the server and the client printed, if both ended with status 0"""
    if not pair.ok:
        raise Failed(pair.report() + lab.logs())
    return pair.server.text(), pair.client.text()


def over_tcp(lab, server, client, seconds=SECONDS):
    """A pair whose server has a TCP port. @return the pairs.Pair"""
    one = pairs.Side(lab, 'h1', server)
    end = time.monotonic() + LISTEN_SECONDS
    while not one.listens(PORT) and one.child.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    return finish(one, pairs.Side(lab, 'h2', client), seconds)


def soft_roce_cells(lab, mtu):
    """uroce and Soft-RoCE, each asking the other, every kind of reliable operation, and both compare the bytes (tests/interop)."""
    chosen = [*cells.messages(cells.RC, mtu, 4, (1, mtu + 1, 65536)), *cells.others(mtu, 6)]
    path = os.path.join(lab.data['dir'], 'cells')
    with open(path, 'w', encoding='ascii') as f:
        f.writelines(cell.line() + '\n' for cell in chosen)
    peer = os.path.join(lab.build, 'tests/interop/interop_peer')
    addresses = {host: (lab.device(host), lab.ipv4(host), lab.ipv6(host)) for host in lab.ends}
    pair = over_tcp(lab, [peer, 'lead', *addresses['h1'], str(PORT), path], [peer, 'follow', *addresses['h2'], lab.tcp, str(PORT)], 2 * SECONDS)
    text, _ = outputs(lab, pair)
    results = [line.split('\t') for line in text.splitlines() if line.count('\t') == 2]
    wrong = [f'{cell.name}: {problem}' for cell, (_, _, problem) in zip(chosen, results) if problem != 'ok']
    if wrong or len(results) != len(chosen):
        raise Failed(f'{len(results)} of {len(chosen)} cells: {wrong}\n{text}{lab.logs()}')
    return f'{len(chosen)} cells'


def device_words(lab, host):
    """What perftest and verify have for a device and a TCP port."""
    return ['-d', lab.device(host), '-x', str(lab.gid_index(host)), '-p', str(PORT)]


def verify(lab, mtu, qps=4, rounds=4):
    """Every byte of every operation, in both directions at once."""
    path = os.path.join(lab.build, 'tests/verbs/verify')
    server, client = ([path, *device_words(lab, host), '-m', str(mtu), '-q', str(qps), '-n', str(rounds), '-u', '16'] for host in lab.ends)
    for text in outputs(lab, over_tcp(lab, server, [*client, lab.tcp])):
        if 'were right' not in text:
            raise Failed(f'verify: {text}')


def perftest(lab, command):
    name, *options = command.split()
    server, client = ([name, *device_words(lab, host), '-F', *options] for host in lab.ends)
    for _ in range(pairs.CLOCK_TRIES):
        pair = over_tcp(lab, server, [*client, lab.tcp])
        if not pairs.clock_failed(pair.server, pair.client):
            break
    _, text = outputs(lab, pair)
    rows = pairs.rows(text)
    if not rows:
        raise Failed(f'{command} printed no result:\n{text}')
    return f'{float(rows[-1][3]):.1f} MB/s' if name.endswith('_bw') else f'{float(rows[-1][4]):.0f} us'


def over_cm(lab, server, client, ready, seconds=SECONDS):
    """A program of rdma_cm."""
    one = pairs.Side(lab, 'h1', server)
    end = time.monotonic() + LISTEN_SECONDS
    while not ready() and one.child.poll() is None:
        if time.monotonic() > end:
            one.kill()
            raise Failed(f'{server[0]} does not listen: {one.report()}')
        time.sleep(0.05)
    return outputs(lab, finish(one, pairs.Side(lab, 'h2', client), seconds))


def cm_listens(lab):
    end = lab.ends['h1']
    if isinstance(end, hosts.Host):
        return lambda: end.ask('/uroce/cm')['listeners'] > 0
    # The kernel's listeners can be seen by a tool that has the device's name in it.
    return lambda: 'LISTEN' in hosts.run('rdma', 'resource', 'show', 'cm_id')


def rping(lab):
    """-V compares the bytes."""
    words = ['rping', '-v', '-V', '-C', '20', '-S', '4000', '-a', lab.ipv4('h1')]
    over_cm(lab, ['rping', '-s', *words[1:]], ['rping', '-c', *words[1:]], cm_listens(lab))


def rstream(lab):
    """-T verify compares the bytes."""
    words = ['rstream', '-T', 'verify', '-T', 'blocking', '-S', '30000', '-C', '20', '-I', '3']
    over_cm(lab, [*words, '-b', lab.ipv4('h1')], [*words, '-s', lab.ipv4('h1')], cm_listens(lab))


def ucx(lab):
    env = ['env', 'UCX_TLS=rc', f'UCX_NET_DEVICES={pairs.DEVICE}:1']
    words = ['ucx_perftest', '-t', 'tag_bw', '-s', '100000', '-n', '50', '-w', '5', '-p', str(PORT)]
    _, text = outputs(lab, over_tcp(lab, env + words, [*env, *words, lab.tcp]))
    if 'Final:' not in text:
        raise Failed(f'ucx_perftest:\n{text}')


def mpi_program(build):
    """@return where tests/nic/run puts tests/verbs/mpi.c, if there is an MPI"""
    return os.path.join(build, 'tests/nic/mpi')


def mpi(lab):
    """OpenMPI over UCX, a process on each NIC; they compare every byte (tests/verbs/mpi.c). Without shared memory between them they have only the wire."""
    words = ['mpirun', '--allow-run-as-root', '--oversubscribe', '--mca', 'pml', 'ucx', '--mca', 'osc', 'ucx', '-x', f'UCX_NET_DEVICES={pairs.DEVICE}:1',
             '-x', 'UCX_TLS=rc,self']
    apps = [['-n', '1', *lab.command(host, mpi_program(lab.build))] for host in lab.ends]
    far = lab.ends['h2'] if isinstance(lab.ends['h2'], hosts.Far) else None
    if far:
        words += ['--mca', 'plm', 'rsh', '--mca', 'plm_rsh_agent', hosts.REMOTE_SHELL, '--mca', 'oob_tcp_if_include', hosts.kernel_netdev()]
        apps = [['-n', '1', '--host', hosts.NEAR, *lab.command('h1', mpi_program(lab.build))],
                ['-n', '1', '--host', hosts.FAR, *far.program_there(mpi_program(lab.build))]]
    before = packets(lab)
    done = subprocess.run([*words, *apps[0], ':', *apps[1]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=MPI_SECONDS, check=False)
    passed = [now - was for now, was in zip(packets(lab), before)]
    if done.returncode or 'all right' not in done.stdout or min(passed) < MPI_MIN_PACKETS:
        raise Failed(f'mpirun: status {done.returncode}, packets {passed}\n{done.stdout}{lab.logs()}')
    return f'{passed} packets'


def packets(lab):
    """@return how many packets h1 has sent and h2 has sent, those that h1 has received if h2 is another machine's"""
    load = {host: end.ask('/uroce/engine,0')['load'] for host, end in lab.ends.items() if isinstance(end, hosts.Host)}
    return [load['h1']['tx_packets'], load['h2']['tx_packets'] if 'h2' in load else load['h1']['rx_packets']]
