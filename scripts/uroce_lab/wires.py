# SPDX-License-Identifier: BSD-3-Clause
"""What joins the hosts: namespaces, links, and the EAL device on each end.

memif   Two hosts, point to point, through shared memory: h1 listens on a socket in the lab's folder, h2 connects.
        As root each host is a network namespace too, and a veth pair (mgmt0) with the same addresses joins the
        kernels, so that programs can exchange their set-up over TCP. A memif port has one peer, so that more than
        two hosts would need a switch between them: those take the veth wire.
veth    As root. roce0 in each host's namespace; two hosts are the ends of one pair, more hang on a bridge in a
        namespace of its own; so do fewer that are to have one (--switch). The kernel and uroced share roce0 and its
        addresses.
"""

import contextlib
import math
import os
import signal
import subprocess

from . import LabError
from .state import held_locks

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ETHER_OVERHEAD = 18         # Ethernet header and one VLAN tag
MEMIF_ALIGN = 128
MEMIF_RING = 7              # 2^7 descriptors: their buffers stay in the second-level cache. The 2^10 of the PMD take 4 MB in each direction
PACKET_OVERHEAD = 66        # struct tpacket2_hdr and struct sockaddr_ll before the frame, aligned
PACKET_ALIGN = 256
PACKET_FRAMES = 2048        # per ring, for bursts of a sender while the receiver waits for the CPU
PAGE = 4096
IFACE = {'memif': 'mgmt0', 'veth': 'roce0'}
WIRES = tuple(IFACE)
PMDS = ('af_packet', 'af_xdp')
# Largest --mtu per wire and the one taken if none is given. 4200 holds a RoCE packet of path MTU 4096. A frame of
# af_xdp shares one page with the headers of its buffer, so that 2048 is the largest path MTU there.
MTU_DEFAULT = {'memif': 4200, 'af_packet': 4200, 'af_xdp': 3000}
MTU_MAX = {'memif': 9000, 'af_packet': 9000, 'af_xdp': 3400}
MTU_MIN = 1280              # IPv6's


@contextlib.contextmanager
def uninterrupted():
    """Signals that end the program are blocked until the end of the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run(*args):
    """
    Run a set-up command; if it fails, what it printed is the error. If we are killed it ends before others may begin, and an interrupt waits for its end: otherwise
    it might make something when all has been removed.
    """
    try:
        with uninterrupted():
            done = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, check=False, pass_fds=held_locks())
    except FileNotFoundError:
        raise LabError(f'{args[0]} is not installed') from None
    if done.returncode:
        raise LabError(f'`{" ".join(args)}`: {done.stdout.strip() or "status %d" % done.returncode}')
    return done.stdout


def namespace(lab, host):
    return f'uroce-{lab}-{host}'


def ipv4(index):
    return f'198.18.0.{index}'


def ipv6(index):
    return f'fd00:18::{index:x}'


def have_ipv6():
    return os.path.exists('/proc/sys/net/ipv6')


def add_namespace(name):
    run('ip', 'netns', 'add', name)
    run('ip', '-n', name, 'link', 'set', 'lo', 'up')
    if have_ipv6():
        # The addresses are the lab's own, so duplicate address detection of link-local ones would only cost a second. Where a container's
        # /proc/sys is read-only it costs that.
        run('ip', 'netns', 'exec', name, 'sh', '-c', 'for c in all default; do '
            'for k in accept_dad accept_ra; do f=/proc/sys/net/ipv6/conf/$c/$k; [ ! -w $f ] || echo 0 >$f || exit 1; done; done')


def remove_namespace(name):
    """Delete a namespace. Programs that still run in it lose their links at once; the namespace ends with the last of them."""
    if not os.path.exists(f'/run/netns/{name}'):
        return
    for iface in IFACE.values():
        subprocess.run(['ip', '-n', name, 'link', 'del', iface], stderr=subprocess.DEVNULL, check=False)
    run('ip', 'netns', 'del', name)


def set_up_iface(ns, iface, index, mtu):
    run('ip', '-n', ns, 'link', 'set', iface, 'mtu', str(mtu), 'up')
    run('ip', '-n', ns, 'addr', 'add', f'{ipv4(index)}/24', 'dev', iface)
    if have_ipv6():
        run('ip', '-n', ns, 'addr', 'add', f'{ipv6(index)}/64', 'dev', iface, 'nodad')


def join(lab):
    """Links between the namespaces of the lab, which exist already. @return nothing; LabError if refused."""
    iface = IFACE[lab['wire']]
    hosts = lab['hosts']
    # As many queues as engines, at both ends: XDP needs as many RX queues here as there are TX queues there.
    queues = ['numrxqueues', str(lab['engines']), 'numtxqueues', str(lab['engines'])]
    if not lab['switch']:
        run('ip', 'link', 'add', iface, 'netns', hosts[0]['namespace'], *queues, 'type', 'veth',
            'peer', 'name', iface, 'netns', hosts[1]['namespace'], *queues)
    else:
        switch = lab['switch']
        run('ip', '-n', switch, 'link', 'add', 'br0', 'mtu', str(lab['mtu']), 'type', 'bridge', 'mcast_snooping', '0')
        run('ip', '-n', switch, 'link', 'set', 'br0', 'up')
        for host in hosts:
            run('ip', 'link', 'add', iface, 'netns', host['namespace'], *queues, 'type', 'veth',
                'peer', 'name', host['name'], 'netns', switch, *queues)
            run('ip', '-n', switch, 'link', 'set', host['name'], 'mtu', str(lab['mtu']), 'master', 'br0', 'up')
    for host in hosts:
        if lab['wire'] == 'veth':
            # Offloads off: veth would pass packets unsegmented or without checksum to the port's driver.
            run('ip', 'netns', 'exec', host['namespace'], 'ethtool', '-K', iface,
                'tx', 'off', 'sg', 'off', 'tso', 'off', 'gso', 'off', 'gro', 'off')
        set_up_iface(host['namespace'], iface, host['index'], lab['mtu'])


def align(value, to):
    return -(-value // to) * to


def memif(lab, host):
    """The first host listens, the second connects. Sockets are files: abstract ones end at the namespace."""
    role = 'server' if host['index'] == 1 else 'client'
    # Ports of one process need names of their own.
    number = host['index'] - 1 if lab['one_process'] else 0
    return f'net_memif{number},role={role},id=0,socket-abstract=no,socket={lab["dir"]}/memif.sock,rsize={MEMIF_RING},' \
           f'bsize={align(lab["mtu"] + ETHER_OVERHEAD, MEMIF_ALIGN)},mac=02:18:00:00:00:{host["index"]:02x}'


def af_packet(lab, host):
    # The PMD steps through the ring by frames, the kernel starts each block at a page: a block must be a multiple of both.
    frame = align(lab['mtu'] + ETHER_OVERHEAD + PACKET_OVERHEAD, PACKET_ALIGN)
    return f'net_af_packet0,iface={IFACE["veth"]},qpairs={lab["engines"]},framesz={frame},' \
           f'blocksz={math.lcm(frame, PAGE)},framecnt={PACKET_FRAMES}'


def af_xdp(lab, host):
    program = lab['programs']['uroce_xdp.o']
    if not os.path.exists(program):
        raise LabError(f'{program} is missing: install clang and build anew')
    return f'net_af_xdp0,iface={IFACE["veth"]},start_queue=0,queue_count={lab["engines"]},xdp_prog={program}'


def ethdev(lab, host):
    """@return the EAL --vdev argument of the host's port; its name ends at the first comma."""
    driver = lab['pmd'] if lab['wire'] == 'veth' else 'memif'
    return {'memif': memif, 'af_packet': af_packet, 'af_xdp': af_xdp}[driver](lab, host)

