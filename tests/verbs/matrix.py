# SPDX-License-Identifier: BSD-3-Clause
"""Which programs run with which options, and what they must print."""

import itertools
import os
import signal
import time

from uroce_lab import LabError, pairs

WIRES = {
    'memif': ('--wire', 'memif'),
    'af_packet': ('--wire', 'veth', '--pmd', 'af_packet'),
    'af_xdp': ('--wire', 'veth', '--pmd', 'af_xdp'),
}
MTUS = {
    'memif': (256, 512, 1024, 2048, 4096),
    'af_packet': (256, 512, 1024, 2048, 4096),
    'af_xdp': (256, 512, 1024, 2048),   # a frame and its buffer's headers share a page
}
LOSS = 'loss=0.01,seed=1'    # of what each host receives: both directions
BW = ('ib_send_bw', 'ib_write_bw', 'ib_read_bw')
LAT = ('ib_send_lat', 'ib_write_lat', 'ib_read_lat')
EVENTS = ('ib_send_bw', 'ib_read_bw', 'ib_send_lat', 'ib_read_lat')      # perftest has none for WRITE
INLINE = ('ib_send_bw', 'ib_write_bw', 'ib_send_lat', 'ib_write_lat')
ATOMIC = ('ib_atomic_bw', 'ib_atomic_lat')
PINGPONG = 'ibv_rc_pingpong'
XRC_PINGPONG = 'ibv_xsrq_pingpong'
XRC = ('ib_send_bw', 'ib_send_lat', 'ib_write_bw', 'ib_read_bw', 'ib_atomic_bw')
OTHER_PINGPONGS = ('ibv_uc_pingpong', 'ibv_ud_pingpong', 'ibv_srq_pingpong')
NOT_RUN = '-'
ALL_SIZES = [str(1 << i) for i in range(1, 24)]     # perftest's -a: 2 bytes to 8 MiB


class Case:
    """One pair of programs. `options` is a string; family 4 or 6 chooses the GID."""

    result = 'ok'       # what the table says when run() has found nothing wrong

    def __init__(self, program, options='', family=4, timeout=60):
        self.program = program
        self.options = options.split()
        self.family = family
        self.timeout = timeout
        self.name = ' '.join([program, *self.options, f'IPv{family}'])

    def command(self, gids):
        gid_option = '-g' if self.program.startswith('ibv_') else '-x'
        return [self.program, '-d', pairs.DEVICE, gid_option, gids[self.family], *self.options]

    def run(self, lab, gids):
        """@return '' or what went wrong, with everything there is to see"""
        pair = pairs.run_pair(lab, self.command(gids), self.timeout)
        problem = self.check(pair)
        return f'{problem}\n{pair.report()}{lab.logs()}' if problem else ''

    def check(self, pair):
        """@return '' or what is wrong"""
        if not pair.ok:
            sides = [side for side in (pair.server, pair.client) if side.timed_out or side.status]
            return 'failed: ' + ', '.join(f'{side.host} {"timed out" if side.timed_out else "status %d" % side.status}'
                                          for side in sides)
        if self.program.startswith('ibv_'):
            return self._check_result(pair)
        sizes = [row[0] for row in pairs.rows(pair.client.text())]
        if '-a' in self.options:
            return '' if sizes == ALL_SIZES else f'the client must print one row per size, it printed {sizes}'
        return '' if len(sizes) == 1 else f'the client must print one row, it printed {sizes}'

    def _check_result(self, pair):
        if self.program == XRC_PINGPONG:    # it prints no times
            sides = [side.host for side in (pair.server, pair.client) if 'success' not in side.text().split()]
            return 'no success on ' + ', '.join(sides) if sides else ''
        try:
            pairs.result(self.program, pair.client.text())
        except LabError as e:
            return str(e)
        return ''


class Alone(Case):
    """A program that needs nobody at the other end: it must end with status 0 and say `says`."""

    def __init__(self, program, options, says):
        super().__init__(program, options, timeout=20)
        self.name = ' '.join([program, *self.options])
        self.says = says

    def command(self, gids):
        return [self.program, *self.options]

    def run(self, lab, gids):
        done = lab.run('h1', *self.command(gids), timeout=self.timeout)
        good = done.returncode == 0 and all(word in done.stdout for word in self.says)
        return '' if good else f'status {done.returncode}, wanted 0 and {self.says}\n{done.stdout}'


class Interrupted(Case):
    """Programs that run until SIGINT comes, first to the client, then to the server."""

    ENOUGH_ROWS = 2

    def run(self, lab, gids):
        sides = []
        port = lab.tcp_port()
        try:
            sides.append(pairs.start_server(lab, self.command(gids), port))
            sides.insert(0, pairs.start_client(lab, self.command(gids), port))
            end = time.monotonic() + self.timeout
            while time.monotonic() < end and sides[0].child.poll() is None and len(pairs.rows(sides[0].text())) < self.ENOUGH_ROWS:
                time.sleep(0.1)
            found = len(pairs.rows(sides[0].text()))
            for side in sides:
                if side.child.poll() is None:
                    os.killpg(side.child.pid, signal.SIGINT)
                side.wait(end)
        finally:
            for side in sides:
                side.kill()
        # Newer ones (25.01) handle the signal.
        interrupted = sides[0].status in (-signal.SIGINT, 128 + signal.SIGINT) or 'User stopped traffic' in sides[0].text()
        if found >= self.ENOUGH_ROWS and interrupted and not any(side.timed_out for side in sides):
            return ''
        return f'{found} rows before SIGINT\n' + ''.join(side.report() for side in sides) + lab.logs()


class Watching(Alone):
    """A program that waits for events until SIGINT comes."""

    def run(self, lab, gids):
        side = pairs.Side(lab, 'h1', self.command(gids))
        try:
            end = time.monotonic() + self.timeout
            while time.monotonic() < end and not all(word in side.text() for word in self.says):
                time.sleep(0.1)
            alive = side.child.poll() is None
            os.killpg(side.child.pid, signal.SIGINT)
            side.wait(end)
        finally:
            side.kill()
        return '' if alive and all(word in side.text() for word in self.says) and not side.timed_out else side.report()


def huge_pages():
    """Whether programs can have some: 2 for each side's buffer and then some."""
    with open('/proc/meminfo', encoding='ascii') as f:
        info = dict(line.split(':') for line in f)
    return os.geteuid() == 0 and int(info.get('HugePages_Free', 0)) - int(info.get('HugePages_Rsvd', 0)) >= 16


class Huge(Case):
    """A program whose memory is of huge pages, if the machine has some left."""

    def run(self, lab, gids):
        self.result = Case.result if huge_pages() else NOT_RUN
        return super().run(lab, gids) if huge_pages() else ''


def single(wire):
    """Programs on one host."""
    yield Alone('ibv_devices', '', ['uroce0'])
    yield Alone('ibv_devinfo', '-v', ['PORT_ACTIVE', 'RoCE v2', 'max_qp_rd_atom'])
    yield Watching('ibv_asyncwatch', '-d uroce0', ['uroce0: async event FD'])


def modes(wire):
    """What programs have beside operations, sizes and MTUs; -c of the pingpongs has them check their data.

    Not ibv_rc_pingpong -t -e: it takes an event whose completion it has polled already for an error, on any device.
    """
    for family, options in ((4, '-c'), (6, '-c -e'), (4, '-t'), (6, '-N -c'), (4, '-N -e'), (6, '-t -c')):
        yield Case(PINGPONG, options + ' -n 200', family)
    # Memory for on-demand paging: of the buffer, of all that there is (-O), with prefetching.
    for program, options in ((PINGPONG, '-o -c'), ('ibv_srq_pingpong', '-o -c'), (XRC_PINGPONG, '-o')):
        yield Case(program, options + ' -n 200', 4)
    yield Case(PINGPONG, '-O -c -n 200', 6)
    yield Case(PINGPONG, '-o -P -e -n 200', 6)
    # Device memory.
    yield Case(PINGPONG, '-j -c -n 200', 4)
    for program in OTHER_PINGPONGS:
        yield Case(program, '-c -n 200', 6)
        yield Case(program, '-e -n 200', 4)
    for program in ('ib_send_bw', 'ib_write_bw', 'ib_send_lat', 'ib_write_lat'):
        yield Case(program, '-c UC -n 200', 6)
    yield Case('ib_send_bw', '-c UD -s 1024 -n 200', 6)
    for program, options in (('ib_send_bw', ''), ('ib_send_lat', ''), ('ib_send_bw', ' -q 8')):
        yield Case(program, '--use-srq -n 200' + options)
    yield Case('ib_write_bw', '-l 8 -n 200')
    for program in BW + ('ib_atomic_bw',):
        yield Case(program, '--use_old_post_send -n 200', 6)
    for program in ('ib_write_bw', 'ib_read_bw'):
        yield Case(program, '--mr_per_qp -q 8 -n 200')
    yield Case('ib_write_bw', '--tclass=96 -n 200', 6)
    yield Case('ib_send_bw', '-D 3')
    for program in BW:
        yield Interrupted(program, '-F -D 1 --run_infinitely')
    for program in BW:
        yield Huge(program, '--use_hugepages -n 200')
    yield from single(wire)


def quick(wire):
    """Every program, every MTU, both families, every option once."""
    largest = MTUS[wire][-1]
    for program in BW + LAT:
        # -a takes perftest a third of a second per size, whatever the wire: once for all of them.
        yield Case(program, '-a -n 20' if wire == 'memif' or program in BW else '-s 8388608 -n 5')
        yield Case(program, '-s 1 -n 100', 6)
    for program in ATOMIC:
        yield Case(program, '-n 200', 4)
        yield Case(program, '-n 200', 6)
    for mtu in MTUS[wire]:
        yield Case(PINGPONG, f'-m {mtu} -n 200', 4)
        for program in BW:
            yield Case(program, f'-m {mtu} -s 10000 -n 200', 6 if mtu == largest else 4)
    for program in BW:
        yield Case(program, '-q 16 -n 500')
        yield Case(program, '-q 64 -s 4096 -n 100')
        yield Case(program, '-b -n 500')
        yield Case(program, '-b -q 16 -s 8192 -n 200')
    for program in EVENTS + ATOMIC:
        yield Case(program, '-e -n 200')
    yield Case(PINGPONG, '-e -n 200', 6)
    for program in OTHER_PINGPONGS:
        yield Case(program, '-n 200 -s 1000', 4)
        yield Case(program, '-n 200 -s 1000', 6)
    for service in ('UC', 'UD'):
        yield Case('ib_send_lat', f'-c {service} -s 1000 -n 200')
    yield Case('ib_send_lat', '-c UD -g -s 1000 -n 200', 6)     # multicast; perftest's group is an IPv6 one
    for program in XRC:
        yield Case(program, '-c XRC -n 200')
    yield Case('ib_send_bw', '-c XRC -b -q 16 -n 200', 6)
    yield Case(XRC_PINGPONG, '-n 200', 4)
    yield Case(XRC_PINGPONG, '-e -n 200', 6)
    for program in INLINE:
        yield Case(program, '-I 64 -s 64 -n 500')


def whole(wire):
    """All of the matrix: programs by sizes by MTU by family, and the options by family."""
    yield from modes(wire)
    for family in (4, 6):
        for mtu in MTUS[wire]:
            yield Case(PINGPONG, f'-m {mtu}', family)
            yield Case(PINGPONG, f'-m {mtu} -s 1000001 -n 100', family)
            yield Case(PINGPONG, f'-m {mtu} -e', family)
            for program in BW:
                yield Case(program, f'-m {mtu} -a -n 20', family, 300)
                yield Case(program, f'-m {mtu} -b -a -n 20', family, 300)
                yield Case(program, f'-m {mtu} -s 1', family)
            for program in LAT:
                yield Case(program, f'-m {mtu} -a -n 20', family, 300)
                yield Case(program, f'-m {mtu} -s 1', family)
            for program in ATOMIC:
                yield Case(program, f'-m {mtu}', family)
        for program, qps in itertools.product(BW, (1, 16, 64)):
            yield Case(program, f'-q {qps} -a -n {20 if qps < 64 else 5}', family, 600)
            yield Case(program, f'-q {qps} -b -s 65536 -n 500', family, 300)
            if program != 'ib_write_bw':
                yield Case(program, f'-q {qps} -e -s 65536 -n 500', family, 300)
        for qps in (16, 64):
            yield Case('ib_atomic_bw', f'-q {qps}', family)
        for program in OTHER_PINGPONGS:
            yield Case(program, '-s 1000', family)
        for program in ('ib_send_lat', 'ib_write_lat'):
            # What a receiver's ring can't hold is lost for good, and perftest waits for it: 2048 frames of an af_xdp socket.
            yield Case(program, '-c UC -s 1048576 -n 100' if wire == 'af_xdp' else '-c UC -a -n 100', family, 300)
        yield Case('ib_send_lat', '-c UD -s 1000', family)
        if family == 6:
            yield Case('ib_send_lat', '-c UD -g -s 1000', family)
        for program in BW + LAT:
            yield Case(program, '-c XRC -a -n 100', family, 300)
        for program in BW:
            yield Case(program, '-c XRC -q 16 -s 65536 -n 100', family, 300)
        for program in ATOMIC:
            yield Case(program, '-c XRC', family)
        for program in ('ib_send_bw', 'ib_send_lat'):
            yield Case(program, '-c XRC -e -s 65536 -n 500', family)
        for options in ('', '-e', '-s 1000'):
            yield Case(XRC_PINGPONG, options, family)
        for program in EVENTS:
            yield Case(program, '-e -a -n 100', family, 300)
        for program in ATOMIC:
            yield Case(program, '-e', family)
        for program, size in itertools.product(INLINE, (1, 64, 200)):
            yield Case(program, f'-I 220 -s {size}', family)
        for program in ('ib_send_bw', 'ib_write_bw'):
            yield Case(program, '-I 64 -s 64 -q 16 -b', family)


def lossy():
    """Every program, long enough that each loses many packets."""
    return [Case(PINGPONG, '-n 500'), *(Case(program, '-n 500', timeout=120) for program in BW + LAT + ATOMIC),
            *(Case(program, '-b -q 16 -s 20000 -n 200', 6, timeout=120) for program in BW)]


def once(wire):
    """A row of each program."""
    yield from single(wire)
    yield from (Case(program, '-n 200') for program in (PINGPONG, 'ibv_uc_pingpong', 'ibv_ud_pingpong', 'ibv_srq_pingpong', XRC_PINGPONG))
    yield from (Case(program, '-n 200') for program in BW + LAT + ATOMIC)


def cases(wire, everything, every_mode=False):
    if everything:
        return list(whole(wire))
    return list(quick(wire)) + (list(modes(wire)) if every_mode or wire == 'memif' else [])
