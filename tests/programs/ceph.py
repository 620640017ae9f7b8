# SPDX-License-Identifier: BSD-3-Clause
"""Ceph's messenger async+rdma: a monitor and two OSDs that keep their objects in memory. All that they and their clients tell each other goes by RDMA."""

import contextlib
import os
import random
import shutil
import signal
import uuid

import mpi_hosts
from rows import SERVER, Row, require, until
from uroce_lab import pairs

NEEDS = {'ceph-mon': 'ceph-mon', 'ceph-osd': 'ceph-osd', 'ceph-common': 'rados'}
PORT = 3300                 # of monitors
OSDS = {0: 'h1', 1: 'h2'}
BEGIN_SECONDS, UP_SECONDS, ASK_SECONDS = 30, 60, 60
POOL = 'pool'
SIZE, DEPTH = 65536, 8      # of rados bench: bytes of an object, operations under way
WRITE_SECONDS = 5
FILE_BYTES = 20 << 20
BYTES_OF_PACKET = 4096
SETTINGS = f"""\
[global]
fsid = {{fsid}}
mon host = [v2:{SERVER}:{PORT}/0]
auth cluster required = none
auth service required = none
auth client required = none
ms type = async+rdma
ms async rdma device name = uroce0
ms async rdma receive buffers = 1024
ms async rdma receive queue len = 256
osd objectstore = memstore
memstore device bytes = {1 << 30}
osd fast shutdown = false
osd crush chooseleaf type = 0
osd pool default size = 2
osd pool default min size = 1
osd pool default pg autoscale mode = off
mon data avail warn = 1
mon data avail crit = 1
mon data = {{folder}}/mon
osd data = {{folder}}/osd$id
run dir = {{folder}}
admin socket = {{folder}}/$name.$pid.asok
pid file =
log file =
log to stderr = false
"""


class Cluster:
    def __init__(self, lab, seconds):
        self.lab, self.seconds = lab, seconds
        self.folder = os.path.join(lab.data['dir'], 'ceph')
        self.settings = os.path.join(self.folder, 'ceph.conf')
        self.sides = {}

    def ask(self, host, *command, seconds=ASK_SECONDS):
        """Run a client of Ceph's. @return what it says"""
        done = self.lab.run(host, command[0], '-c', self.settings, *command[1:], timeout=seconds)
        require(done.returncode == 0, f'{" ".join(command)}: status {done.returncode}:\n{done.stdout}', *self.sides.values())
        return done.stdout

    def start(self, host, kind, name):
        side = pairs.Side(self.lab, host, [f'ceph-{kind}', '-c', self.settings, '-i', str(name), '-f'])
        self.sides[kind, name] = side
        return side

    def up(self):
        """@return how many OSDs the monitor says are up"""
        return self.ask('h1', 'ceph', 'osd', 'stat').split(' up')[0].rpartition(' ')[2]

    def begin_mon(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.mkdir(self.folder)
        fsid = str(uuid.uuid4())
        with open(self.settings, 'w', encoding='ascii') as f:
            f.write(SETTINGS.format(fsid=fsid, folder=self.folder))
        names = os.path.join(self.folder, 'monmap')
        self.ask('h1', 'monmaptool', '--create', '--fsid', fsid, '--addv', 'a', f'[v2:{SERVER}:{PORT}/0]', names)
        self.ask('h1', 'ceph-mon', '--mkfs', '-i', 'a', '--monmap', names)
        side = self.start('h1', 'mon', 'a')
        until('the monitor does not listen', lambda: side.listens(PORT) or side.child.poll() is not None, BEGIN_SECONDS, side)

    def begin(self):
        self.begin_mon()
        for osd, host in OSDS.items():
            name = str(uuid.uuid4())
            self.ask('h1', 'ceph', 'osd', 'new', name)
            self.ask('h1', 'ceph', 'osd', 'crush', 'add', f'osd.{osd}', '1', 'root=default')
            os.mkdir(os.path.join(self.folder, f'osd{osd}'))
            self.ask(host, 'ceph-osd', '-i', str(osd), '--mkfs', '--osd-uuid', name)
            self.start(host, 'osd', osd)
        until('not all OSDs are up', lambda: self.up() == str(len(OSDS)), UP_SECONDS, *self.sides.values())
        self.ask('h2', 'ceph', 'osd', 'pool', 'create', POOL, '8', '8', 'replicated')

    def end(self):
        for side in self.sides.values():
            side.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def bench(self, *what):
        said = self.ask('h2', 'rados', '-p', POOL, 'bench', *what, '-t', str(DEPTH), seconds=self.seconds)
        made = [line.split()[-1] for line in said.splitlines() if line.startswith(('Total writes made', 'Total reads made'))]
        require(len(made) == 1 and int(made[0]) > 0, said, *self.sides.values())
        return int(made[0])


@contextlib.contextmanager
def cluster(lab, seconds):
    it = Cluster(lab, seconds)
    try:
        it.begin()
        yield it
        for (kind, name), side in it.sides.items():
            require(side.child.poll() is None, f'{kind}.{name} ended', side)
    finally:
        it.end()


def bench(lab, seconds):
    """rados compares what it reads with what it has written, and so do we with a file."""
    before = {host: mpi_hosts.packets(lab, host) for host in lab.hosts}
    with cluster(lab, seconds) as it:
        written = it.bench(str(WRITE_SECONDS), 'write', '-b', str(SIZE), '--no-cleanup')
        require(it.bench(str(seconds), 'seq') == written, 'other objects are read than were written')
        paths = [os.path.join(it.folder, name) for name in ('sent', 'received')]
        with open(paths[0], 'wb') as f:
            f.write(random.randbytes(FILE_BYTES))
        it.ask('h2', 'rados', '-p', POOL, 'put', 'file', paths[0])
        it.ask('h1', 'rados', '-p', POOL, 'get', 'file', paths[1])
        with open(paths[0], 'rb') as sent, open(paths[1], 'rb') as received:
            require(sent.read() == received.read(), 'other bytes are read than were written')
    # Each object goes to the other host once at least: it is on both.
    packets = sum(mpi_hosts.packets(lab, host) - before[host] for host in lab.hosts)
    require(packets * BYTES_OF_PACKET >= written * SIZE + FILE_BYTES, f'{packets} packets are too few')


def restart(lab, seconds):
    """An OSD ends while a client writes, and comes again: the client goes on, and every object is right."""
    with cluster(lab, seconds) as it:
        writer = pairs.Side(lab, 'h2', ['rados', '-c', it.settings, '-p', POOL, 'bench', str(4 * WRITE_SECONDS), 'write', '-b', str(SIZE), '-t', str(DEPTH),
                                        '--no-cleanup'])
        try:
            until('nothing is written', lambda: 'sec Cur ops' in writer.text(), BEGIN_SECONDS, writer)
            osd = it.sides['osd', 0]
            osd.child.send_signal(signal.SIGTERM)
            until('osd.0 was asked to end and did not', lambda: osd.child.poll() is not None, BEGIN_SECONDS, osd)
            it.start(OSDS[0], 'osd', 0)
            until('osd.0 does not come again', lambda: it.up() == str(len(OSDS)), UP_SECONDS, *it.sides.values())
            until('the client does not end', lambda: writer.child.poll() is not None, seconds, writer)
            require(writer.status == 0, f'the client: status {writer.status}', writer)
        finally:
            writer.kill()
        require(it.bench(str(seconds), 'seq') > 0, 'nothing is read')


ROWS = [
    Row('ceph', NEEDS, bench, seconds=180, daily=False),
    Row('ceph osd restart', NEEDS, restart, seconds=240, daily=False),
]
