# SPDX-License-Identifier: BSD-3-Clause
"""In the virtual machine: NICs that are unplugged and come back while programs run on them, and on the other NIC of the same daemon."""

import os
import time

import hosts
import nics
import programs
from telling import fact, tell
from uroce_lab import pairs

SECONDS = 60                # for the kernel, the daemon and programs to do what follows
PINGS = 20                  # that a program which is not concerned must have done after a change
FATAL = 'IBV_EVENT_DEVICE_FATAL'
CM_PORT = 7471


def until(what, test, explain=lambda: ''):
    end = time.monotonic() + SECONDS
    while not test():
        if time.monotonic() > end:
            raise programs.Failed(f'{what}: not within {SECONDS} s\n{explain()}')
        time.sleep(0.1)


class Pings:
    """rping between a port of h1 and h2, for as long as it goes. It compares the bytes."""

    def __init__(self, lab, host, port):
        self.lab = lab
        words = ['-v', '-V', '-a', lab.ipv4('h1'), '-p', str(port)]
        before = host.ask('/uroce/cm')['listeners']
        self.server = pairs.Side(lab, 'h1', ['rping', '-s', *words])
        until('rping listens', lambda: host.ask('/uroce/cm')['listeners'] > before or self.server.child.poll() is not None, self.server.report)
        self.client = pairs.Side(lab, 'h2', ['rping', '-c', *words])
        self.go_on()

    def report(self):
        return ''.join(f'{side.report()[:1000]}\n...\n{side.text()[-1000:]}' for side in (self.server, self.client)) + self.lab.logs()

    def pings(self):
        return self.client.text().count('ping data')

    def go_on(self):
        enough = self.pings() + PINGS
        until('rping goes on', lambda: self.pings() >= enough or self.ended(), self.report)
        if self.ended():
            raise programs.Failed(f'rping has ended: {self.report()}')

    def ended(self):
        return any(side.child.poll() is not None for side in (self.server, self.client))

    def kill(self):
        self.server.kill()
        self.client.kill()


def watch(lab):
    """@return ibv_asyncwatch on the port of h1"""
    side = pairs.Side(lab, 'h1', ['ibv_asyncwatch', '-d', lab.device('h1')])
    until('ibv_asyncwatch starts', lambda: 'async event FD' in side.text(), side.report)
    return side


def devices(lab):
    """@return the verbs devices that programs of h1 find"""
    return hosts.run(*lab.command('h1', 'ibv_devices')).split()


class Absence:
    """A NIC of h1 goes and comes back; `other` is the lab of the other one."""

    def __init__(self, run, number, lab, other):
        self.run, self.number, self.lab, self.other = run, number, lab, other
        self.address, self.port = nics.PLUGGED_ADDRESSES[number], lab.ends['h1']
        self.sides = []

    def there(self):
        return os.path.exists(f'/sys/bus/pci/devices/{self.address}')

    def explain(self):
        return f'{self.port.port()}\n{hosts.run("dmesg")[-2000:]}\n{self.lab.logs()}'

    def all(self):
        name = self.port.device
        try:
            return self.run.step('programs of both ports start', self.begin) and \
                self.run.step(f'the NIC of {name} is unplugged', self.goes) and \
                self.run.step(f'it comes back: {name} is up', self.comes_back) and \
                self.run.step(f'verify over {name}', programs.verify, self.lab, 1024) and \
                self.run.step(f'the programs of {self.other.device("h1")} go on', self.not_concerned)
        finally:
            for side in self.sides:
                side.kill()

    def begin(self):
        self.sides += [watch(self.lab)]
        self.sides += [watch(self.other)]
        self.sides += [Pings(self.lab, self.port.host, CM_PORT)]
        self.sides += [Pings(self.other, self.port.host, CM_PORT + 1)]

    def goes(self):
        watch_this, _, pings_this, pings_other = self.sides
        tell(plug=self.number, there=False)
        until(f'{FATAL} is told', lambda: FATAL in watch_this.text(), lambda: watch_this.report() + self.explain())
        until('the device goes', lambda: not self.there(), self.explain)
        until('rping is told', lambda: pings_this.server.child.poll() is not None, pings_this.report)
        if 'device removal' not in pings_this.server.text():
            raise programs.Failed(f'rping was not told of the removal: {pings_this.report()}')
        if self.port.port()['state'] != 'removed' or self.port.device in devices(self.lab) or self.other.device('h1') not in devices(self.lab):
            raise programs.Failed(f'{self.port.port()} {devices(self.lab)}')
        pings_other.go_on()

    def comes_back(self):
        tell(plug=self.number, there=True)
        until('the device comes', self.there, self.explain)
        hosts.give_to_vfio([self.address])
        hosts.give_to_user(self.address)
        until('the port is up', lambda: self.port.port()['state'] == 'up' and self.port.device in devices(self.lab), self.explain)

    def not_concerned(self):
        _, watch_other, _, pings_other = self.sides
        pings_other.go_on()
        if 'IBV_EVENT' in watch_other.text():
            raise programs.Failed(watch_other.report())


def unplug(run):
    """Each of the two NICs of one daemon."""
    mtu = 1500
    h1 = run.host('h1', 1, mtu, service=True, addresses=nics.PLUGGED_ADDRESSES)
    h2 = run.host('h2', 2, mtu, addresses=nics.ADDRESSES[2:], networks=2)
    labs = [hosts.Lab(run.build, hosts.Port(h1, number), hosts.Port(h2, 0, number)) for number in range(2)]
    for lab in labs:
        run.step(f'verify over {lab.device("h1")}', programs.verify, lab, 1024)
    for number in (1, 0):
        if run.failed or not Absence(run, number, labs[number], labs[1 - number]).all():
            return
    fact('removal', 'yes')
