# SPDX-License-Identifier: BSD-3-Clause
"""
In the virtual machine: hosts of uroced on the NICs that vfio-pci has, set up as docs/operations.md says, and one of the kernel's Soft-RoCE; and a host in
another virtual machine.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import time

from uroce_lab import LabError, pairs
from uroce_lab.wires import ipv4, ipv6

import nics

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), '../interop'))

from guest import quote  # noqa: E402
from uroced import READY_SECONDS, Uroced  # noqa: E402

HUGEPAGES = 512
NOIOMMU = '/sys/module/vfio/parameters/enable_unsafe_noiommu_mode'
USER = 'uroce'
UNIT = os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../config/uroced.service.in')
KERNEL_INDEX = 9
# Two virtual machines: the addresses of their kernels' NICs.
NEAR, FAR = '192.0.2.1', '192.0.2.2'
AGENT_PORT = 7018
DEVICES = ('uroce0', 'uroce1')
BOOT_SECONDS = 400          # that one of them may take longer than the other
DONE = '/run/nic/done'      # in the far one: it may end
REMOTE_SHELL = '/run/nic/remote'


def run(*words, **options):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace', check=False,
                          timeout=READY_SECONDS, **options)
    if done.returncode:
        raise LabError(f'{" ".join(words)}: status {done.returncode}: {done.stdout}')
    return done.stdout


def write(path, text):
    with open(path, 'w', encoding='ascii') as f:
        f.write(text)


def read(path):
    with open(path, encoding='ascii') as f:
        return f.read().strip()


# ---- What docs/operations.md has the reader do, as root ----
def install_modules(folder):
    """The kernel's modules, where modprobe looks."""
    target = f'/lib/modules/{platform.release()}'
    shutil.copytree(folder, target)
    # depmod asks for it; the list of what there is in a folder is enough for it to go on without the order.
    write(os.path.join(target, 'modules.order'), '')
    run('depmod')


def add_user():
    """Who `uroced` is for systemd; the packages create it."""
    with open('/etc/passwd', encoding='ascii') as f:
        if f'\n{USER}:' in f.read():
            return
    run('useradd', '--system', '--user-group', '--no-create-home', USER)


def has_noiommu():
    """@return whether this kernel's vfio works without an IOMMU (CONFIG_VFIO_NOIOMMU)"""
    run('modprobe', 'vfio')
    return os.path.exists(NOIOMMU)


def bind(addresses, noiommu=False):
    """Reserve hugepages and give the NICs to vfio-pci."""
    write('/proc/sys/vm/nr_hugepages', str(HUGEPAGES))
    if int(read('/proc/sys/vm/nr_hugepages')) < HUGEPAGES:
        raise LabError(f'the machine has only {read("/proc/sys/vm/nr_hugepages")} hugepages')
    os.makedirs('/dev/hugepages', exist_ok=True)
    run('mount', '-t', 'hugetlbfs', 'none', '/dev/hugepages')       # systemd does that
    run('modprobe', 'vfio-pci')
    if noiommu:
        write(NOIOMMU, '1')
    give_to_vfio(addresses)


def give_to_vfio(addresses):
    run('dpdk-devbind.py', '--bind', 'vfio-pci', *addresses)
    for address in addresses:
        if bound(address) != 'vfio-pci':
            raise LabError(f'{address} is bound to {bound(address)}:\n{run("dpdk-devbind.py", "--status-dev", "net")}')


def give_to_user(address):
    """Let a daemon that has given up its rights open the device: the file of its group."""
    group = os.path.basename(os.readlink(f'/sys/bus/pci/devices/{address}/iommu_group'))
    shutil.chown(f'/dev/vfio/{group}', USER)


def bound(address):
    """@return the driver that has the device, '': none, or there is no device"""
    try:
        return os.path.basename(os.readlink(f'/sys/bus/pci/devices/{address}/driver'))
    except FileNotFoundError:
        return ''


# ---- The daemons ----
VLAN = 5                    # and the number of its network


def address_in(network, index):
    """@return a host's address in the network of that number, 0: that of labs"""
    return f'198.19.{network}.{index}' if network else ipv4(index)


def unit_value(key):
    with open(UNIT, encoding='utf-8') as f:
        return re.search(rf'^{key}=(.*)$', f.read(), re.MULTILINE)[1]


def as_the_unit():
    """@return a command that starts a program with the rights that the systemd unit gives."""
    caps = [name.removeprefix('CAP_').lower() for name in unit_value('AmbientCapabilities').split()]
    plus = ','.join('+' + name for name in caps)
    return ['prlimit', '--memlock=unlimited', '--nofile=' + unit_value('LimitNOFILE'), 'setpriv', '--reuid', USER, '--regid', USER, '--clear-groups',
            '--inh-caps=-all,' + plus, '--ambient-caps=-all,' + plus, '--bounding-set=-all,' + plus, '--no-new-privs']


class Host(Uroced):
    """A uroced with one NIC, or two."""

    device = pairs.DEVICE

    def __init__(self, name, index, build, mtu, addresses, engines=1, service=False, networks=1, vlan=False, more=''):
        """
        @param addresses  of the NICs on PCI
        @param service  start it as the systemd unit does, not as root
        @param networks  in how many the first port has an address; a second port is in the second one
        @param vlan  the first port has an address in VLAN
        @param more  lines of the port's section
        """
        for number in range(1, len(addresses)):
            more += f'[port {DEVICES[number]}]\nethdev = {addresses[number]}\naddresses = {address_in(number, index)}/24\nmtu = {mtu}\n'
        super().__init__(name, index, f'/run/nic/{name}', build, addresses[0], f'mtu = {mtu}\n{more}',
                         also=[f'{address_in(number, index)}/24' for number in range(1, networks)] + [f'{address_in(VLAN, index)}/24@{VLAN}'] * vlan)
        self.addresses, self.address, self.service, self.engines = addresses, addresses[0], service, engines
        if service:
            shutil.chown(self.folder, USER, USER)

    def begin(self):
        core = self.entry['index'] - 1
        lcores = ','.join(f'{lcore}@{(core + max(0, lcore - 1)) % os.cpu_count()}' for lcore in range(self.engines + 1))
        allowed = [word for address in self.addresses for word in ('-a', address)]
        self.start('--lcores', lcores, *allowed, prefix=as_the_unit() if self.service else ())

    def ipv4(self):
        return ipv4(self.entry['index'])

    def logs(self):
        return f'{self.said()}\n{self.counters()}'

    def counters(self):
        """What the driver, the port and the engines have counted: those that are not 0."""
        said = [self.ask('/ethdev/xstats,0'), self.port()['net']]
        for number in range(self.engines):
            said += self.ask(f'/uroce/engine,{number}').values()
        return '\n'.join(' '.join(f'{name}={count}' for name, count in counted.items() if count) for counted in said)


class Port:
    """A port of a Host, in the place of a host."""

    def __init__(self, host, number, network=None):
        """@param network  the number of the network in which its address is used"""
        self.host, self.name, self.entry, self.device = host, host.name, host.entry, DEVICES[number]
        self.program, self.logs = host.program, host.logs
        self.network = number if network is None else network

    def ipv4(self):
        return address_in(self.network, self.entry['index'])

    def port(self):
        return self.host.ask(f'/uroce/port,{self.device}')


def kernel_netdev():
    """@return the name of the NIC that the kernel keeps"""
    folder = f'/sys/bus/pci/devices/{nics.KERNEL_ADDRESS}'
    virtio = next(name for name in os.listdir(folder) if name.startswith('virtio'))
    return os.listdir(os.path.join(folder, virtio, 'net'))[0]


class Kernel:
    """Soft-RoCE on the NIC that the kernel keeps."""

    device = 'rxe0'

    def __init__(self, mtu):
        self.name = 'rxe'
        self.netdev = kernel_netdev()
        write(f'/proc/sys/net/ipv6/conf/{self.netdev}/accept_dad', '0')
        write(f'/proc/sys/net/ipv6/conf/{self.netdev}/router_solicitations', '0')
        run('ip', 'link', 'set', self.netdev, 'mtu', str(mtu), 'up')
        run('ip', 'addr', 'add', f'{ipv4(KERNEL_INDEX)}/24', 'dev', self.netdev)
        run('ip', 'addr', 'add', f'{ipv6(KERNEL_INDEX)}/64', 'dev', self.netdev, 'nodad')
        run('rdma', 'link', 'add', 'rxe0', 'type', 'rxe', 'netdev', self.netdev)
        self.entry = {'name': self.name, 'index': KERNEL_INDEX, 'namespace': ''}

    def ipv4(self):
        return ipv4(KERNEL_INDEX)

    def stop(self):
        run('rdma', 'link', 'del', 'rxe0')
        run('ip', 'addr', 'flush', 'dev', self.netdev)
        run('ip', 'link', 'set', self.netdev, 'down')
        return ''


# ---- Two virtual machines ----
def agent(build):
    return os.path.join(build, 'tests/interop/interop_agent')


def join_network(build, name, address):
    """Be a host of that name on the TCP network of the two, with a program in the place of ssh: mpirun calls it with a host and the words of a command."""
    run('hostname', name)
    with open('/etc/hosts', 'a', encoding='ascii') as f:
        f.write(f'{address} {name}\n')
    run('ip', 'link', 'set', kernel_netdev(), 'up')
    run('ip', 'addr', 'add', f'{address}/24', 'dev', kernel_netdev())
    write(REMOTE_SHELL, f'#!/bin/sh\nhost=$1\nshift\nexec {agent(build)} run "$host" {AGENT_PORT} "$*"\n')
    os.chmod(REMOTE_SHELL, 0o755)


class Far:
    """A Host in the other virtual machine, where an agent runs commands."""

    device = pairs.DEVICE

    def __init__(self, name, index, build):
        self.name, self.build = name, build
        self.entry = {'name': name, 'index': index, 'namespace': ''}

    def ipv4(self):
        return ipv4(self.entry['index'])

    def shell(self, command):
        """@return the command here that runs a shell's command there"""
        return [agent(self.build), 'run', FAR, str(AGENT_PORT), command]

    def program_there(self, *words):
        """@return the command there that runs a verbs program"""
        return [os.path.join(self.build, 'app/uroce-run/uroce-run'), '--socket', f'/run/nic/{self.name}/uroced.sock', *words]

    def program(self, *words):
        return self.shell(' '.join(map(quote, self.program_there(*words))))

    def wait(self):
        """Until it serves: the agent comes last."""
        end = time.monotonic() + BOOT_SECONDS
        while subprocess.run(self.shell('true'), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode:
            if time.monotonic() > end:
                raise LabError(f'no agent at {FAR}')

    def logs(self):
        return run(*self.shell(f'tail -c 6000 /run/nic/{self.name}/uroced.log'))

    def stop(self):
        """@return what is wrong, or ''; how its daemon ended the other machine says"""
        try:
            run(*self.shell(f'touch {DONE}'))
        except (LabError, subprocess.TimeoutExpired) as e:
            return str(e)
        return ''


class Lab:
    """Two hosts in the form that uroce_lab.pairs works with: the server runs on h1."""

    def __init__(self, build, server, client, tcp='127.0.0.1'):
        """@param tcp  where the client reaches TCP ports of the server"""
        self.build, self.tcp = build, tcp
        self.ends = {'h1': server, 'h2': client}
        self.hosts = {name: end.entry for name, end in self.ends.items()}
        self.data = {'dir': '/run/nic'}

    def command(self, host, *program):
        end = self.ends[host]
        if isinstance(end, Kernel):
            return list(program)
        return end.program(*program)

    def device(self, host):
        return self.ends[host].device

    def ipv4(self, host):
        return self.ends[host].ipv4()

    def ipv6(self, host):
        return ipv6(self.hosts[host]['index'])

    def gid_index(self, host):
        """The index of the host's IPv4 GID."""
        listing = run(*self.command(host, 'ibv_devinfo', '-v', '-d', self.device(host)))
        for number, gid in re.findall(r'GID\[\s*(\d+)\]:\s*([0-9a-fA-F:.]+)', listing):
            if gid.rstrip(',').lower() == '::ffff:' + self.ipv4(host):
                return int(number)
        raise LabError(f'no IPv4 GID:\n{listing}')

    def logs(self):
        return ''.join(f'-- uroced of {end.name}\n{end.logs()}\n' for end in self.ends.values() if not isinstance(end, Kernel))
