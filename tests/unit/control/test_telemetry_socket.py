#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The telemetry socket of a running uroced: what it answers, what it refuses, and that hostile clients don't stop it.

  test_telemetry_socket.py UROCED
"""

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time

START_SECONDS = 60
USER_CLIENTS = 8            # TEL_USER_CLIENTS_MAX
CLIENTS = 32                # TEL_CLIENTS_MAX
NOBODY = 65534


def start(uroced, folder, *settings, eal=()):
    control = os.path.join(folder, 'uroced.sock')
    args = [uroced, '--lcores', '0@0,1@0', '--no-huge', '-m', '128', '--no-pci', '--no-shconf', '--file-prefix',
            f'uroce-test-{os.getpid()}', '--vdev', 'net_null0', *eal, '--', '--socket', control]
    for setting in ('port uroce0.ethdev=net_null0', 'port uroce0.addresses=198.18.0.1/24', 'daemon.socket_mode=0666', *settings):
        args += ['--set', setting]
    child = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             env=dict(os.environ, RUNTIME_DIRECTORY=folder))
    end = time.monotonic() + START_SECONDS
    while not os.path.exists(control):
        assert child.poll() is None and time.monotonic() < end, child.communicate()[0]
        time.sleep(0.02)
    return child


class Client:
    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(10)
        self.sock.connect(path)
        self.greeting = json.loads(self.sock.recv(1024))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def ask(self, command):
        self.sock.send(command if isinstance(command, bytes) else command.encode())
        answer = json.loads(self.sock.recv(self.greeting['max_output_len']))
        (name, value), = answer.items()
        if isinstance(command, str):
            assert name == command.partition(',')[0], answer
        return value

    def refused(self, command, why):
        value = self.ask(command)
        assert why in ''.join(value['error']), value


def patient(path):
    """A client, when those that have gone don't count any more."""
    end = time.monotonic() + 20
    while True:
        c = Client(path)
        if 'error' not in c.greeting:
            return c
        c.sock.close()
        assert time.monotonic() < end, c.greeting
        time.sleep(0.01)


def answers(path):
    answers_of(path, os.geteuid())


def answers_of(path, uid):
    with Client(path) as c:
        assert c.greeting['version'].startswith('uroce ') and c.greeting['abi'] > 0, c.greeting
        assert c.ask('/uroce/port') == ['uroce0']
        port = c.ask('/uroce/port,uroce0')
        assert port['addresses'] and '198.18.0.1/24' in port['addresses'], port
        assert port['driver'] == 'net_null' and len(port['mac']) == 17, port
        assert c.ask('/uroce/engine') == [0]
        assert c.ask('/uroce/qp')['all'] == 0
        for kind in ('session', 'qp', 'cq', 'mr', 'pd', 'srq', 'cm_id'):
            rows = c.ask(f'/uroce/rows,{kind}')
            assert rows['rows'] == [] and rows['all'] == 0 and rows['next'] == 0 and rows['columns'][0] == 'number', rows
        for wrong in ('/uroce/rows', '/uroce/rows,qps', '/uroce/rows,qp,from=x', '/uroce/rows,qp,to=1', '/uroce/rows,,'):
            c.refused(wrong, 'give session, qp')
        assert c.ask('/ethdev/list') == [0]
        assert '/uroce/qp' in c.ask('/')
        about = c.ask('/uroce/telemetry')
        assert about['clients'] >= 1 and about['ports'] == 1 and about['uid'] == uid, about


def refuses(path):
    with Client(path) as c:
        before = c.ask('/uroce/telemetry')['refused_commands']
        wrong = ('/eal/params', '/help,/uroce/qp', '/uroce2/qp', '/uroce/', '/uroce/qpx', 'x', '/uroce', '/mempool/list')
        for command in wrong:
            c.refused(command, 'no such command here')
        c.refused(b'/uroce/qp,\n', 'bytes that are no text')
        c.refused(b'/uroce/qp\x00', 'bytes that are no text')
        c.refused(b'/uroce/qp,' + b'x' * 5000, 'too long')
        c.refused('/uroce/qp,' + 'x' * 900, 'neither a number nor key=value')
        assert c.ask('/uroce/telemetry')['refused_commands'] == before + len(wrong) + 3


def hostile(path):
    # One who asks and doesn't read is dropped; nobody else notices.
    with Client(path) as deaf, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        deaf.sock.setblocking(False)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with contextlib.suppress(BlockingIOError):
                deaf.sock.send(b'/uroce/rows,qp')
            with Client(path) as c:
                if c.ask('/uroce/telemetry')['dropped_clients'] > 0:
                    break
        else:
            raise AssertionError('a client that does not read is kept')
    # One who asks and goes before the answer comes.
    for _ in range(200):
        # Those that have gone may still count, so one may be refused.
        with Client(path) as hasty, contextlib.suppress(BrokenPipeError):
            hasty.sock.send(b'/uroce/port,uroce0')
    with patient(path) as c:
        assert c.ask('/uroce/port') == ['uroce0'], 'the answer is that of somebody else'
    # As many as there may be.
    with contextlib.ExitStack() as many:
        clients = [many.enter_context(patient(path)) for _ in range(CLIENTS)]
        before = clients[0].ask('/uroce/telemetry')['refused_clients']
        with Client(path) as late:
            assert 'as many clients as it takes' in late.greeting['error'], late.greeting
        # All at once get what they asked for.
        for i, c in enumerate(clients):
            c.sock.send(b'/uroce/port' if i % 2 else b'/uroce/engine')
        for i, c in enumerate(clients):
            answer = json.loads(c.sock.recv(1 << 20))
            assert answer == ({'/uroce/port': ['uroce0']} if i % 2 else {'/uroce/engine': [0]}), answer
        refused = clients[0].ask('/uroce/telemetry')['refused_clients']
        assert refused == before + 1, refused


def becomes(path, uid):
    """Its sockets are there before it gives up root's rights."""
    end = time.monotonic() + START_SECONDS
    with Client(path) as c:
        while (is_now := c.ask('/uroce/telemetry')['uid']) != uid:
            assert time.monotonic() < end, f'the daemon runs as {is_now}, not as {uid}'
            time.sleep(0.01)


def of_another_user(path):
    """In a child, as an ordinary user: it may read, not write; and has its number of connections."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            with contextlib.ExitStack() as many:
                clients = [many.enter_context(Client(path)) for _ in range(USER_CLIENTS)]
                with Client(path) as late:
                    assert 'this user has as many connections' in late.greeting['error'], late.greeting
                clients[0].refused('/uroce/capture,start,/tmp/x.pcapng', 'only root and the user as whom the daemon runs')
                clients[0].refused('/uroce/capture,stop', 'only root')
                clients[0].refused('/uroce/impair,uroce0,loss=0.5', 'only root')
                clients[0].refused('/uroce/impair,uroce0,none', 'only root')
                clients[0].refused('/uroce/move,17,0', 'only root')
                assert clients[0].ask('/uroce/move')['moved'] == 0
                assert clients[0].ask('/uroce/capture')['running'] == 'no'
                assert clients[1].ask('/uroce/qp')['all'] == 0
            os._exit(0)
        except BaseException as e:      # pylint: disable=broad-except
            print(repr(e), file=sys.stderr, flush=True)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def stop(child, path):
    child.terminate()
    said = child.communicate(timeout=START_SECONDS)[0]
    assert child.returncode == 0, said
    assert not os.path.exists(path), 'the socket is left'


def main():
    uroced, = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = os.path.join(folder, 'uroced.sock.telemetry')
        child = start(uroced, folder)
        try:
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o666, oct(os.stat(path).st_mode)
            answers(path)
            refuses(path)
            if os.geteuid() == 0:
                of_another_user(path)
            hostile(path)
            patient(path).sock.close()
            answers(path)
            stop(child, path)
            if os.geteuid() == 0:
                # DPDK's socket is root's: the connection to it was made before the daemon became somebody else.
                child = start(uroced, folder, 'daemon.user=nobody')
                becomes(path, NOBODY)
                answers_of(path, NOBODY)
                stop(child, path)
            child = start(uroced, folder, eal=('--no-telemetry',))
            with Client(path) as c:
                c.refused('/uroce/port', '--no-telemetry')
                assert c.ask('/uroce/rows,qp')['all'] == 0
            stop(child, path)
            child = start(uroced, folder, 'daemon.telemetry=off')
            assert not os.path.exists(path)
            stop(child, path)
        finally:
            child.kill()
            print(child.stdout.read() if not child.stdout.closed else '')


if __name__ == '__main__':
    main()
