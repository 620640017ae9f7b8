# SPDX-License-Identifier: BSD-3-Clause
"""valkey with its RDMA module: its own test client, valkey-benchmark with 50 clients, and values that outlive the server.

Debian builds valkey without RDMA: docs/programs.md says which programs the rows look for.
"""

import contextlib
import functools
import os
import random
import re
import shutil

from rows import READY_SECONDS, SERVER, Row, cm, require, until
from uroce_lab import pairs

BUILT = {'valkey with BUILD_RDMA=module': 'valkey-rdma.so'}
PORT = 6379                 # of everyone's clients
CLIENTS = 50
REQUESTS = 5000             # of each command
TESTS = ('PING_INLINE', 'PING_MBULK', 'SET', 'GET', 'INCR', 'LPUSH', 'RPUSH', 'LPOP', 'RPOP', 'SADD', 'HSET', 'SPOP', 'ZADD', 'ZPOPMIN', 'MSET')
KEYS = 300
LONGEST = 200000            # bytes of a value: several fill the buffer of a connection
STOP_SECONDS = 20


def new_folder(lab):
    folder = os.path.join(lab.data['dir'], 'valkey')
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    return folder


def server_command(folder, module):
    return ['valkey-server', '--port', '0', '--protected-mode', 'no', '--save', '', '--appendonly', 'yes', '--appendfsync', 'no', '--dir', folder,
            '--loadmodule', module, '--rdma-bind', SERVER, '--rdma-port', str(PORT)]


def benchmark_command(pipeline, requests=REQUESTS):
    return ['valkey-benchmark', '--rdma', '-h', SERVER, '-c', str(CLIENTS), '-P', str(pipeline), '-n', str(requests), '-r', '1000', '-d', '512', '-q']


def test_command():
    return ['rdma-test', '-h', SERVER, '-p', str(PORT), '-t', '8', '-m', '200', '-M', '800']


@contextlib.contextmanager
def served(lab, folder):
    until('a listener of an earlier program is left', lambda: cm(lab, 'h1')['listeners'] == 0, READY_SECONDS)
    server = pairs.Side(lab, 'h1', server_command(folder, shutil.which('valkey-rdma.so')))
    try:
        until('the server does not listen', lambda: cm(lab, 'h1')['listeners'] > 0 or server.child.poll() is not None, READY_SECONDS, server)
        yield server
    finally:
        server.kill()


def client(lab, seconds, server, *command):
    done = lab.run('h2', *command, timeout=seconds)
    require(done.returncode == 0, f'{command[0]}: status {done.returncode}:\n{done.stdout}', server)
    return done.stdout


def cli(lab, seconds, server, commands):
    """@return what valkey-cli prints for a list of commands, one line for each"""
    path = os.path.join(lab.data['dir'], 'valkey-commands')
    with open(path, 'w', encoding='ascii') as f:
        f.writelines(command + '\n' for command in commands)
    return client(lab, seconds, server, 'sh', '-c', f'exec valkey-cli --rdma -h {SERVER} <{path}').splitlines()


def bench(lab, seconds, server, pipeline):
    said = client(lab, seconds, server, *benchmark_command(pipeline))
    found = re.findall(r'^(\w+)[^:\n]*: ([0-9.]+) requests per second', said.replace('\r', '\n'), re.M)
    done = {name for name, figure in found if float(figure) > 0}
    require(done >= set(TESTS), f'{sorted(set(TESTS) - done)} missing:\n{said}', server)


def benchmark(pipeline, lab, seconds):
    with served(lab, new_folder(lab)) as server:
        bench(lab, seconds, server, pipeline)


def own_test(lab, seconds):
    """It sets thousands of values of 1 KiB by 8 connections, lets the server fork for BGSAVE, and compares every value."""
    with served(lab, new_folder(lab)) as server:
        said = client(lab, seconds, server, *test_command())
        require(said.count('GET') == 8 and 'Valkey Over RDMA test [OK]' in said, said, server)


def restart(lab, seconds):
    """What was set is there after the server has been asked to end, and after it has been killed."""
    folder = new_folder(lab)
    values = {f'key:{i}': random.randbytes(random.randint(1, LONGEST) // 2).hex() or '0' for i in range(KEYS)}
    with served(lab, folder) as server:
        require(cli(lab, seconds, server, [f'SET {key} {value}' for key, value in values.items()]) == ['OK'] * KEYS, 'not all set', server)
        require(cli(lab, seconds, server, map('GET '.__add__, values)) == list(values.values()), 'other values', server)
        lab.run('h2', 'valkey-cli', '--rdma', '-h', SERVER, 'SHUTDOWN', timeout=seconds)
        until('it was asked to end and did not', lambda: server.child.poll() is not None, STOP_SECONDS, server)
    with served(lab, folder) as server:
        require(cli(lab, seconds, server, map('GET '.__add__, values)) == list(values.values()), 'other values after an end', server)
        counted = cli(lab, seconds, server, ['INCR counter'] * CLIENTS)
        require(counted == [str(i + 1) for i in range(CLIENTS)], f'counted {counted}', server)
    with served(lab, folder) as server:
        require(cli(lab, seconds, server, map('GET '.__add__, [*values, 'counter'])) == [*values.values(), str(CLIENTS)], 'other values after a kill', server)


ROWS = [
    Row('valkey rdma-test', {}, own_test, built={**BUILT, "valkey's tests/rdma": 'rdma-test'}),
    *(Row(f'valkey-benchmark {pipeline}', {}, functools.partial(benchmark, pipeline), seconds=120, daily=False, built=BUILT) for pipeline in (1, 16)),
    Row('valkey restart', {}, restart, seconds=120, daily=False, built=BUILT),
]
