#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What runs in the virtual machine.

  inside.py BUILD MODULES DEVICE PART...

It prints a line of JSON for each step ({"step", "problem", "seconds"}), for each thing that it has found out ({"fact", "value"}), and when tests/nic/run is to
plug in or pull out a cable ({"link", "up"}) or a NIC ({"plug", "there"}).
"""

import os
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, '../../scripts')]

from uroce_lab import LabError, pairs  # noqa: E402

import nics  # noqa: E402
import hosts  # noqa: E402
import programs  # noqa: E402
from telling import fact, tell  # noqa: E402
from unplug import unplug  # noqa: E402

ROCE_HEADERS = 96
LINK_SECONDS = 60           # until a daemon must have seen a change; it looks twice a second if its driver reports none


class Run:
    """A part: its hosts, and the steps with them."""

    def __init__(self, part, build, nic):
        self.part, self.build, self.nic = part, build, nic
        self.ends = []
        self.failed = False

    def step(self, name, function, *args, **options):
        """Run one step; what goes wrong is reported, and the next one is tried."""
        began = time.monotonic()
        problem, value = '', None
        try:
            value = function(*args, **options)
        except (LabError, programs.Failed, subprocess.TimeoutExpired, OSError) as e:
            problem = str(e) or traceback.format_exc()
        self.failed |= bool(problem)
        tell(step=f'{self.part}: {name}', problem=problem, seconds=round(time.monotonic() - began, 1), value=value if isinstance(value, str) else '')
        return not problem

    def host(self, name, index, mtu, engines=1, service=False, addresses=None, networks=1, vlan=False):
        """@return a started uroced on the NIC of that number, or on those with these addresses"""
        end = hosts.Host(name, index, self.build, mtu, addresses or [nics.ADDRESSES[index - 1]], engines, service, networks, vlan)
        self.ends.append(end)
        if self.step(f'uroced of {name} starts{" as the service" if service else ""}', end.begin):
            return end
        raise LabError(f'{name} is not there')

    def pair(self, mtu, engines=1):
        """Two hosts of uroce: one runs as the service does, one as root."""
        return hosts.Lab(self.build, self.host('h1', 1, mtu, engines, service=True, vlan=True), self.host('h2', 2, mtu, engines, vlan=True))

    def end(self):
        for end in reversed(self.ends):
            problem = end.stop()
            if problem:
                tell(step=f'{self.part}: the end of {end.name}', problem=problem, seconds=0, value='')


def roce_mtu(ip_mtu):
    return max(size for size in (256, 512, 1024, 2048, 4096) if size + ROCE_HEADERS <= ip_mtu)


def check_port(host):
    """@return DPDK's name of the driver, once the port is up"""
    end = time.monotonic() + hosts.READY_SECONDS
    while (port := host.port())['state'] != 'up' or port['link'] != 'up':
        if time.monotonic() > end:
            raise programs.Failed(f'{host.name}: the port is not up: {port}')
        time.sleep(0.1)
    return port['driver']


def has_interrupts(host):
    """Whether the NIC's RX queues have raised interrupts, which wake engines that sleep."""
    with open('/proc/interrupts', encoding='ascii') as f:
        for line in f:
            if f'({host.address})' in line and 'vfio-msix[0]' not in line:
                return sum(int(word) for word in line.split()[1:] if word.isdigit()) > 0
    return False


def both(run, mtu, commands):
    """Two hosts of uroce, one of which runs as the service does."""
    size = roce_mtu(mtu)
    lab = run.pair(mtu)
    for end in lab.ends.values():
        run.step(f'the port of {end.name} is up', check_port, end)
    fact('pmd', f'`{lab.ends["h1"].port()["driver"]}`')
    run.step(f'verify, MTU {size}', programs.verify, lab, size)
    for command in commands:
        run.step(command, programs.perftest, lab, command)
    run.step('rping', programs.rping, lab)
    run.step('rstream', programs.rstream, lab)
    tagged = hosts.Lab(run.build, *(hosts.Port(end, 0, hosts.VLAN) for end in lab.ends.values()))
    run.step(f'ib_write_bw in VLAN {hosts.VLAN}', programs.perftest, tagged, 'ib_write_bw -n 50')
    fact('interrupts', 'yes' if all(has_interrupts(end) for end in lab.ends.values()) else 'no')
    fact('mtu', str(size))
    return lab


def link_becomes(host, state):
    """@return whether the daemon sees it in time"""
    end = time.monotonic() + LINK_SECONDS
    while host.port()['link'] != state:
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def pull_cable(lab):
    """The cable of h1 is out for a moment: the daemon sees both, and its programs are told."""
    host = lab.ends['h1']
    watch = pairs.Side(lab, 'h1', ['ibv_asyncwatch', '-d', pairs.DEVICE])
    try:
        end = time.monotonic() + LINK_SECONDS
        while 'async event FD' not in watch.text() and time.monotonic() < end:
            time.sleep(0.05)
        tell(link='nic0', up=False)
        seen = link_becomes(host, 'down')
        tell(link='nic0', up=True)
        if not link_becomes(host, 'up'):
            raise programs.Failed(f'{host.name}: the link does not come back: {host.port()}\n{lab.logs()}')
        end = time.monotonic() + LINK_SECONDS
        while seen and not ('IBV_EVENT_PORT_ERR' in watch.text() and 'IBV_EVENT_PORT_ACTIVE' in watch.text()):
            if time.monotonic() > end:
                raise programs.Failed(f'ibv_asyncwatch was not told: {watch.report()}{lab.logs()}')
            time.sleep(0.05)
    finally:
        watch.kill()
    fact('link', 'yes' if seen else 'no')


def few(run):
    both(run, run.nic.mtu, ('ib_write_bw -n 100', 'ib_read_bw -n 50', 'ib_send_lat -n 50'))


def jumbo(run):
    """The largest MTU that the device has; all programs."""
    lab = both(run, run.nic.mtu, ('ib_write_bw -n 300', 'ib_write_bw -a -n 20', 'ib_read_bw -n 200', 'ib_send_lat -n 200', 'ib_send_lat -e -n 50',
                                     'ib_atomic_bw -n 100', 'ib_send_bw -c UD -n 100'))
    run.step('ucx_perftest', programs.ucx, lab)
    with_mpi = os.path.exists(programs.mpi_program(run.build))
    if with_mpi:
        run.step('OpenMPI', programs.mpi, lab)
    if not run.failed:
        fact('uroce', 'verify, perftest, rping, rstream, UCX' + (', OpenMPI' if with_mpi else ''))


def soft(run, commands, ways):
    """The kernel's Soft-RoCE at the other end."""
    mtu = run.nic.mtu
    size = roce_mtu(mtu)
    uroce = run.host('h1', 1, mtu)
    kernel = hosts.Kernel(mtu)
    run.ends.append(kernel)
    run.step(f'every kind of operation, both ways, MTU {size}', programs.soft_roce_cells, hosts.Lab(run.build, uroce, kernel), size)
    for server, client in ((uroce, kernel), (kernel, uroce))[:ways]:
        lab = hosts.Lab(run.build, server, client)
        way = f'{client.name} to {server.name}'
        for command in commands:
            # As in tests/interop: Soft-RoCE sends wrongly again what its timer finds missing, and an emulated CPU isn't fast.
            run.step(f'{command}, {way}', programs.perftest, lab, command + ' -u 18')
        run.step(f'rping, {way}', programs.rping, lab)


def soft_few(run):
    soft(run, ('ib_write_bw -n 50',), 1)


def soft_roce(run):
    soft(run, ('ib_write_bw -n 200', 'ib_read_bw -n 100 -o 16', 'ib_send_lat -n 100'), 2)
    if not run.failed:
        fact('soft_roce', 'every kind of operation, perftest, rping')


def received(host):
    """@return packets that each queue has received, as its engine has counted them: not all drivers do"""
    return [next(group['rx_packets'] for group in host.ask(f'/uroce/engine,{queue}').values() if 'rx_packets' in group) for queue in range(host.engines)]


def queues(run):
    """An engine for each queue, and the usual MTU of Ethernet."""
    engines = run.nic.queues
    lab = run.pair(1500, engines)
    run.step('verify, 16 QPs, MTU 1024', programs.verify, lab, 1024, qps=16, rounds=2)
    run.step('ib_write_bw -q 8', programs.perftest, lab, 'ib_write_bw -q 8 -n 20')
    got = [received(end) for end in lab.ends.values()]
    spread = all(packets > 0 for host in got for packets in host)
    tell(step=f'{run.part}: packets received by each queue', problem='', seconds=0, value=str(got))
    fact('queues', '1' if engines == 1 else f'{engines}, all queues receive' if spread else f'{engines}, one queue receives')


def link(run):
    lab = run.pair(run.nic.mtu)
    run.step('the cable is pulled out and plugged in', pull_cable, lab)
    run.step('verify afterwards', programs.verify, lab, roce_mtu(run.nic.mtu))


def noiommu(run):
    """vfio-pci without an IOMMU: physical addresses."""
    lab = hosts.Lab(run.build, run.host('h1', 1, run.nic.mtu), run.host('h2', 2, run.nic.mtu))
    run.step('verify', programs.verify, lab, roce_mtu(run.nic.mtu))
    run.step('ib_write_bw', programs.perftest, lab, 'ib_write_bw -n 100')
    if not run.failed:
        fact('noiommu', 'verify, perftest')


def near(run):
    """The first of two virtual machines: a host of uroce whose programs speak with those of the other one."""
    mtu = run.nic.mtu
    server = run.host('h1', 1, mtu, service=True)
    run.step('the TCP network', hosts.join_network, run.build, 'near', hosts.NEAR)
    client = hosts.Far('h2', 2, run.build)
    if not run.step('the other machine serves', client.wait):
        return
    run.ends.append(client)
    lab = hosts.Lab(run.build, server, client, hosts.NEAR)
    run.step('verify', programs.verify, lab, roce_mtu(mtu))
    for command in ('ib_write_bw -n 300', 'ib_read_bw -n 200', 'ib_send_lat -n 200', 'ib_send_lat -e -n 50', 'ib_atomic_bw -n 100', 'ib_send_bw -c UD -n 100'):
        run.step(command, programs.perftest, lab, command)
    run.step('rping', programs.rping, lab)
    run.step('rstream', programs.rstream, lab)
    run.step('ucx_perftest', programs.ucx, lab)
    with_mpi = os.path.exists(programs.mpi_program(run.build))
    if with_mpi:
        run.step('OpenMPI', programs.mpi, lab)
    if not run.failed:
        fact('two', 'verify, perftest, rping, rstream, UCX' + (', OpenMPI' if with_mpi else ''))


def far(run):
    """The second one: it does what the first one asks for."""
    run.host('h2', 2, run.nic.mtu)
    run.step('the TCP network', hosts.join_network, run.build, 'far', hosts.FAR)
    with subprocess.Popen([hosts.agent(run.build), 'serve', str(hosts.AGENT_PORT)], stdin=subprocess.DEVNULL) as agent:
        while agent.poll() is None and not os.path.exists(hosts.DONE):
            time.sleep(0.2)
        agent.kill()


PARTS = {part.__name__: part for part in (few, jumbo, soft_few, soft_roce, queues, link, unplug, noiommu, near, far)}
# The NICs that a part's machine has, if not the first two.
HAS = {'near': nics.ADDRESSES[:1], 'far': nics.ADDRESSES[1:2], 'unplug': nics.PLUGGED_ADDRESSES + nics.ADDRESSES[2:]}


def main():
    build, modules, nic, *parts = sys.argv[1:]
    sys.stderr = sys.stdout
    noiommu = 'noiommu' in parts
    addresses = HAS.get(parts[0], nics.ADDRESSES[:2])
    first = Run('vfio-pci', build, nics.NICS[nic])
    if not (first.step("the kernel's modules", hosts.install_modules, modules) and first.step('user', hosts.add_user)):
        return
    if noiommu and not hosts.has_noiommu():
        fact('noiommu', "Debian's kernel can't")
        tell(end=True)
        return
    if not first.step('dpdk-devbind.py', hosts.bind, addresses, noiommu):
        return
    for part in parts:
        run = Run(part, build, nics.NICS[nic])
        try:
            PARTS[part](run)
        except LabError as e:
            tell(step=part, problem=str(e), seconds=0, value='')
        finally:
            run.end()
    tell(end=True)


if __name__ == '__main__':
    main()
