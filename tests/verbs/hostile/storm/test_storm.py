#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Random requests and packets at a daemon that was built with AddressSanitizer and UndefinedBehaviorSanitizer.

  test_storm.py [--requests N] [--packets N] [--seed N] [--daemon FILE] [--keep]

The daemon (tests/fuzz/run builds it, with the fuzz targets' objects; --daemon: another one) runs as an ordinary user and has three ports. Two are joined by
memif, and `verify` runs between them again and again: it checks every byte, and makes and destroys all its objects each time. The peer of the third is
storm_packets. storm_requests and storm_targets, whose QPs the packets are for, run as user nobody on the same stack, and so the same engine, as one of
the victim's ends. All start at once and end when all requests and packets are sent.

It fails if the daemon ends, if a sanitizer reports, if requests or packets are not taken any more, or if `verify` fails. Without --seed it takes another one each
day and prints it.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, '../../../..'))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(ROOT, 'tests/verbs'), os.path.join(ROOT, 'scripts')]

from labs import AS_NOBODY, SKIPPED, not_as_others  # noqa: E402
from uroce_lab import places  # noqa: E402

REQUESTS, PACKETS = 15000, 200000   # of the daily run
READY_SECONDS = 60
VERIFY_SECONDS = 60                 # beside the storm, with sanitizers
RECEIVED = 1                        # of what was sent, at least
PAUSE_SECONDS = 2                   # between its runs, in which the storm has the cores
VERIFY = ['-x', '1', '-q', '2', '-n', '1']
END_SECONDS = 30
MBUF_MB = 768
STORM_IP, PEER_IP = '198.18.9.1', '198.18.9.2'
REPORTS = ('AddressSanitizer', 'runtime error:', 'UndefinedBehaviorSanitizer', 'LeakSanitizer', 'assertion')
# Leaks are the fuzz targets' matter: a daemon that ends frees nothing. What a report says needs calls that the daemon has given up.
SANITIZERS = {'ASAN_OPTIONS': 'detect_leaks=0:halt_on_error=1:allocator_may_return_null=1', 'UBSAN_OPTIONS': 'print_stacktrace=1'}


class Failure(Exception):
    """What went wrong."""


class Storm:
    """The daemon and all programs."""

    def __init__(self, options):
        self.options = options
        self.programs = os.path.join(places.build_dir(), 'tests/verbs/hostile/storm')
        self.uroce_run = os.path.join(places.build_dir(), places.IN_BUILD['uroce-run'])
        self.verify = os.path.join(places.build_dir(), 'tests/verbs/verify')
        self.folder = tempfile.mkdtemp(prefix='uroce-storm-')
        os.chmod(self.folder, 0o755)
        self.children = {}
        self.rounds = 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def text(self, name):
        with open(self.path(name + '.log'), encoding='utf-8', errors='replace') as f:
            return f.read()

    def start(self, name, *command, env=None):
        with open(self.path(name + '.log'), 'w', encoding='utf-8') as log:
            self.children[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **(env or {})},
                                                   cwd=self.folder, start_new_session=True)

    def wait_for(self, name, words):
        end = time.monotonic() + READY_SECONDS
        while words not in self.text(name):
            if self.children[name].poll() is not None or time.monotonic() > end:
                raise Failure(f'{name} did not begin')
            self.check()
            time.sleep(0.02)

    def config(self, name, ports):
        with open(self.path(name + '.conf'), 'w', encoding='utf-8') as f:
            f.write(f'[daemon]\nsocket = {self.path(name + ".sock")}\nsocket_mode = 0666\nidle = adaptive\nuser = daemon\nseccomp = off\n')
            for number, (ethdev, address) in enumerate(ports):
                f.write(f'[port uroce{number}]\nethdev = {ethdev}\naddresses = {address}/24\nmtu = 4200\n')
        os.chmod(self.path(name + '.conf'), 0o644)

    def start_daemon(self, program):
        self.config('a', [('net_memif0', STORM_IP), ('net_memif1', '198.18.0.1')])
        self.config('b', [('net_memif2', '198.18.0.2')])
        cpus = ','.join(map(str, sorted(os.sched_getaffinity(0))))
        lcores = f'0@({cpus})' + ''.join(f',{i}@({cpus})' for i in (1, 2))
        vdevs = [f'net_memif{i},role={role},id=0,socket-abstract=no,socket={self.path(sock)},bsize=4352,mac=02:18:00:00:{mac}'
                 for i, role, sock, mac in ((0, 'server', 'storm.memif', '09:01'), (1, 'server', 'wire.memif', '00:01'),
                                            (2, 'client', 'wire.memif', '00:02'))]
        self.start('daemon', program, '--lcores', lcores, '--no-pci', '--no-huge', '-m', str(MBUF_MB), '--iova-mode', 'va',
                   '--file-prefix', f'uroce-storm{os.getpid()}', *(word for vdev in vdevs for word in ('--vdev', vdev)), '--',
                   '--config', self.path('a.conf'), '--config', self.path('b.conf'),
                   env={**SANITIZERS, 'RUNTIME_DIRECTORY': self.folder, 'XDG_RUNTIME_DIR': self.folder})
        end = time.monotonic() + READY_SECONDS
        while not all(os.path.exists(self.path(name)) for name in ('a.sock', 'b.sock')):
            if self.children['daemon'].poll() is not None or time.monotonic() > end:
                raise Failure('the daemon did not begin')
            time.sleep(0.05)

    def check(self):
        if self.children['daemon'].poll() is not None:
            raise Failure(f'the daemon ended with status {self.children["daemon"].returncode}')
        if found := [line for line in self.text('daemon').splitlines() if any(report in line for report in REPORTS)]:
            raise Failure('a report: ' + found[0])

    def storm(self):
        options = self.options
        with open(self.path('targets'), 'wb') as f:
            f.truncate(1 << 16)
        os.chmod(self.path('targets'), 0o666)
        golden = os.path.join(ROOT, 'tests/golden')
        self.start('packets', os.path.join(self.programs, 'storm_packets'), self.path('storm.memif'), self.path('targets'), golden,
                   str(options.packets), str(options.seed), env={'RUNTIME_DIRECTORY': self.folder})
        self.wait_for('packets', 'ready')
        self.start('targets', *AS_NOBODY, self.uroce_run, '--socket', self.path('a.sock'), os.path.join(self.programs, 'storm_targets'),
                   self.path('targets'), 'uroce0', PEER_IP, str(options.seed))
        self.wait_for('targets', 'attacking')
        self.start('requests', *AS_NOBODY, os.path.join(self.programs, 'storm_requests'), str(options.requests), str(options.seed),
                   STORM_IP, PEER_IP, env={'UROCE_SOCKET': self.path('a.sock')})

    def victim(self):
        """One run of `verify` between the two other ports."""
        for end, (sock, device, more) in {'server': ('a.sock', 'uroce1', []), 'client': ('b.sock', 'uroce0', ['127.0.0.1'])}.items():
            self.start(end, self.uroce_run, '--socket', self.path(sock), self.verify, '-d', device, '-p', str(20000 + os.getpid() % 20000),
                       '-s', str(self.options.seed + self.rounds), *VERIFY, *more)
        deadline = time.monotonic() + VERIFY_SECONDS
        for end in ('client', 'server'):
            while self.children[end].poll() is None:
                self.check()
                if time.monotonic() > deadline:
                    raise Failure(f'the victim did not end within {VERIFY_SECONDS} s')
                time.sleep(0.02)
            if self.children[end].returncode != 0:
                raise Failure(f'the {end} of the victim ended with status {self.children[end].returncode}')
        self.rounds += 1

    def check_received(self):
        """What was sent has arrived; most of it is dropped, and counted."""
        asked = subprocess.run([os.path.join(places.build_dir(), 'app/uroce/uroce'), '--socket', self.path('a.sock'), '--json', 'statistic'],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if asked.returncode != 0:
            raise Failure('no statistics: ' + asked.stdout)
        counted = {(row['object'], row['counter']): row['value'] for row in json.loads(asked.stdout)}
        frames, roce = (sum(value for (what, counter), value in counted.items() if what.startswith('engine') and counter == name)
                        for name in ('load.rx_packets', 'transport.rx_packets'))
        if frames < self.options.packets * RECEIVED:
            raise Failure(f'of {self.options.packets} packets the engines received {frames}')
        print(f'{frames} frames received, {roce} of them for QPs')

    def run(self, program):
        self.start_daemon(program)
        start = time.monotonic()
        self.storm()
        while True:
            self.check()
            done = ' packets in ' in self.text('packets') and self.children['requests'].poll() == 0
            if self.children['packets'].poll() is not None or self.children['requests'].poll() not in (None, 0):
                raise Failure('a program of the storm gave up')
            self.victim()
            if self.children['targets'].poll() is not None:
                raise Failure('storm_targets gave up')
            if done:
                break
            end = time.monotonic() + PAUSE_SECONDS
            while time.monotonic() < end and self.children['requests'].poll() is None:
                time.sleep(0.05)
        seconds = time.monotonic() - start
        self.children['targets'].terminate()
        self.children['targets'].wait(END_SECONDS)
        self.check_received()
        daemon = self.children['daemon']
        daemon.terminate()
        if daemon.wait(END_SECONDS) != 0:
            raise Failure(f'the daemon ended with status {daemon.returncode}')
        for name in ('requests', 'packets', 'targets'):
            print(*(line for line in self.text(name).splitlines() if line not in ('ready', 'attacking')), sep='\n')
        print(f'{self.rounds} runs of `verify` beside it, all right; no report; {seconds:.0f} s')

    def end(self):
        for child in self.children.values():
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        if not self.options.keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--requests', type=int, default=REQUESTS)
    parser.add_argument('--packets', type=int, default=PACKETS)
    parser.add_argument('--seed', type=int, default=int(time.time() / 86400))
    parser.add_argument('--daemon', metavar='FILE', help='a uroced that was built with sanitizers')
    parser.add_argument('--keep', action='store_true', help='keep the folder with configurations and logs')
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if why := not_as_others():
        print(f'skipped: {why}')
        return SKIPPED
    program = options.daemon
    if program is None:
        built = subprocess.run([os.path.join(ROOT, 'tests/fuzz/run'), '--daemon'], stdout=subprocess.PIPE, text=True, check=False)
        if built.returncode != 0:
            return built.returncode
        program = built.stdout.split()[-1]
    print(f'seed {options.seed}', flush=True)
    storm = Storm(options)
    try:
        storm.run(program)
        return 0
    except Failure as e:
        print(f'{e}\n(again, perhaps: --seed {options.seed} --requests {options.requests} --packets {options.packets})')
        for name in storm.children:
            print(f'-- {name}', *storm.text(name).splitlines()[-60:], sep='\n')
        return 1
    finally:
        storm.end()


if __name__ == '__main__':
    sys.exit(main())
