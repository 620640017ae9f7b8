#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/troubleshooting.md quotes messages. Each is provoked here, and must be what the page says.

A word in capitals on the page (PATH, N) stands for anything. Whoever changes a message changes the page.
"""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import AS_NOBODY, LAB, NAME, Skip, lab_up, main, not_as_others  # noqa: E402
from uroce_lab import daemon, telemetry  # noqa: E402
from uroce_lab.state import is_root  # noqa: E402

PAGE = os.path.join(daemon.ROOT, 'docs/troubleshooting.md')
BUILD = daemon.build_dir()
UROCED, UROCE_RUN = (os.path.join(BUILD, 'app', name, name) for name in ('uroced', 'uroce-run'))
EAL = ['--lcores', '0@0,1@0', '--no-huge', '-m', '128', '--no-pci', '--no-telemetry', '--file-prefix', f'uroce-trouble-{os.getpid()}']
SECONDS = 60
# What stands for anything.
WORDS = 'PATH NAME NAMES MODE PROGRAM REASON VERSION FILE SECTION KEY VALUE COMMAND COMMANDS ADDRESS'
PLACES = re.compile(r'\b(?:' + WORDS.replace(' ', '|') + r')\b|N\b')


def symptoms():
    """The quoted messages of the first column that programs of uroce print, as the page has them."""
    with open(PAGE, encoding='utf-8') as f:
        rows = [line.split(' | ')[0][2:] for line in f if line.startswith('| `')]
    return [row.split('`')[1] for row in rows]


def pattern(message):
    return re.compile('.+'.join(re.escape(part) for part in PLACES.split(message)))


def said(*args, **more):
    done = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace',
                          timeout=SECONDS, check=False, **more)
    return done.stdout


class Messages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix='uroce-trouble-')
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.environment = {**os.environ, 'RUNTIME_DIRECTORY': cls.folder, 'XDG_RUNTIME_DIR': cls.folder}

    def check(self, text, begin):
        """What was said has the page's message that begins like this."""
        found = [message for message in symptoms() if message.startswith(begin)]
        self.assertEqual(len(found), 1, f'docs/troubleshooting.md has {len(found)} messages that begin with {begin!r}')
        self.assertRegex(text, pattern(found[0]))

    def daemon(self, *words, eal=()):
        return said(UROCED, *EAL, *eal, '--', '--set', f'daemon.socket={self.folder}/u.sock', '--set', 'daemon.user=root' if is_root() else
                    'daemon.telemetry=off', *words, env=self.environment)

    def test_no_daemon(self):
        self.check(said(UROCE_RUN, '--socket', f'{self.folder}/none.sock', 'ibv_devinfo'), 'uroce: no daemon at')

    def test_program_without_our_libraries(self):
        self.assertIn('No IB devices found', symptoms())
        program = os.path.join(self.folder, 'static')
        with open(program + '.c', 'w', encoding='ascii') as f:
            f.write('int main(void) { return 0; }\n')
        if subprocess.run(['gcc', '-static', '-o', program, program + '.c'], capture_output=True, check=False).returncode:
            raise Skip('no static libc here')
        self.check(said(UROCE_RUN, program), 'uroce-run: PROGRAM does not load')

    def test_eal_does_not_start(self):
        self.check(self.daemon('--set', 'port uroce0.ethdev=net_nothing0', eal=['--vdev', 'net_nothing0']), "uroced: DPDK's EAL doesn't start")

    def test_driver_that_is_not_installed(self):
        folders = glob.glob('/usr/lib/*/dpdk/pmds-*')
        if not is_root() or not folders:
            raise Skip('no folder of drivers that can be hidden')
        script = ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs none "$0" && exec "$@"', folders[0]]
        for vdev, package in (('net_memif0,role=server', 'librte-net-memif'), ('net_af_packet0,iface=lo', 'librte-net-af-packet')):
            for eal in (['--vdev', vdev], [f'--vdev={vdev}']):
                text = said(*script, UROCED, *EAL, *eal, '--', '--set', f'daemon.socket={self.folder}/u.sock', '--set', 'daemon.user=root',
                            '--set', f'port uroce0.ethdev={vdev.partition(",")[0]}', env=self.environment)
                self.check(text, "uroced: DPDK's driver NAME is not installed")
                self.assertRegex(text, rf'apt-get install {package}\d+\n')

    def test_ports(self):
        name = ('--set', 'port uroce0.ethdev=net_null7')
        self.check(self.daemon(*name), 'port NAME: there is no ethdev NAME, and no other')
        self.check(self.daemon(*name, eal=['--vdev', 'net_null0']), 'port NAME: there is no ethdev NAME; there are')
        wire = f'net_memif0,role=client,socket={self.folder}/wire.sock,socket-abstract=no'
        self.check(self.daemon('--set', 'port uroce0.ethdev=net_memif0', '--set', 'port uroce0.addresses=198.18.0.1/24', eal=['--vdev', wire]),
                   'port NAME: ethdev NAME has role=client')

    def test_ports_that_are_shared_with_the_kernel(self):
        if not is_root():
            raise Skip('packet sockets need root')
        vdev = ['--vdev', 'net_af_packet0,iface=d0']
        port = ('--set', 'port uroce0.ethdev=net_af_packet0', '--set')
        script = ['unshare', '--net', 'sh', '-c', 'ip link add d0 type veth peer d1 && ip link set d0 mtu 1500 up && exec "$@"', 'sh']
        for key, begin in (('addresses=198.18.0.1/24', 'port NAME: ADDRESS is not an address of'), ('mtu=4200', 'port NAME: mtu is N, but NAME has N')):
            text = said(*script, UROCED, *EAL, *vdev, '--', '--set', f'daemon.socket={self.folder}/u.sock', '--set', 'daemon.user=root', *port,
                        f'port uroce0.{key}', env=self.environment)
            self.check(text, begin)

    def test_configuration(self):
        self.check(said(UROCED, '--config', 'x'), 'uroced: --config must stand')
        file = os.path.join(self.folder, 'u.conf')
        for text, begin in (('[daemon]\nidel = poll\n', 'uroced: FILE:N: [SECTION]'), ('[daemon]\n', 'uroced: FILE: no port')):
            with open(file, 'w', encoding='ascii') as f:
                f.write(text)
            self.check(said(UROCED, '--', '--config', file, '--check'), begin)

    def test_labs(self):
        with lab_up() as lab:
            self.check(said(LAB, 'up', '--name', NAME), "uroce-lab: lab 'NAME' is already up")
            self.check(said(LAB, 'pair', '--name', NAME, '--wait', '0.2', 'sleep', '0.5', '--client', 'true'), 'hN: no port listens')
            if not not_as_others():
                self.no_permission(lab.hosts['h1']['socket'])
            self.daemon_dies(lab)
        self.check(said(LAB, 'status', '--name', NAME), "uroce-lab: lab 'NAME' is not up")

    def no_permission(self, socket):
        for path in (os.path.dirname(socket), os.path.dirname(os.path.dirname(socket))):
            os.chmod(path, 0o755)
        os.chmod(socket, 0o660)
        text = said(*AS_NOBODY, UROCE_RUN, '--socket', socket, 'ibv_devinfo')
        self.check(text, 'uroce: no permission to use')

    def daemon_dies(self, lab):
        pair = subprocess.Popen([LAB, 'pair', '--name', NAME, 'ib_write_bw', '-d', 'uroce0', '-D', '30'], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        end = time.monotonic() + SECONDS
        while not telemetry.ask(lab.data, lab.hosts['h2'], '/uroce/qp,state=RTS').get('all') and time.monotonic() < end:
            time.sleep(0.1)
        os.kill(lab.pid('h2'), signal.SIGKILL)
        self.check(pair.communicate(timeout=SECONDS)[0], 'uroce: NAME: the connection to uroced is lost')


if __name__ == '__main__':
    sys.exit(main())
