# SPDX-License-Identifier: BSD-3-Clause
"""uDAPL by two of its providers: cma connects by rdma_cm, scm by TCP. dapltest -V compares what it sends."""

import functools
import os
import re

from rows import LEFT_SECONDS, SERVER, Row, both, cm_listens, require, served, tcp_listens, until

NEEDS = {'dapl2-utils': 'dtest', 'libdapl2': '/usr/lib/*/libdaplofa.so.2'}
PORT = 15828                # at which dtest tells its client about itself, by TCP
PASSED = 'DAPL Test Complete. PASSED'
TRANSACTIONS = (
    # threads, endpoints of each, times, the operations of a transaction
    (2, 2, 100, 'client SR 4096 2 server SR 4096 2'),
    (1, 1, 50, 'client SR 256 1 server SR 256 1 client RW 65536 1 server RR 65536 1 client SR 256 1 server SR 256 1'),
)
LIMITS = ('limit_ia', 'limit_pz', 'limit_evd', 'limit_ep', 'limit_rsp', 'limit_psp', 'limit_lmr', 'limit_rpost', 'limit_size_lmr')


def program(lab, host, name, *options):
    """/etc/dat.conf names the devices of others."""
    path = os.path.join(lab.data['dir'], f'dat-{host}.conf')
    with open(path, 'w', encoding='ascii') as f:
        f.write(f'cma u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "{lab.tcp_address(host)} 0" ""\n')
        f.write('scm u2.0 nonthreadsafe default libdaploscm.so.2 dapl.2.0 "uroce0 1" ""\n')
    return ['env', 'DAT_OVERRIDE=' + path, name, *options]


def dtest(provider, lab, seconds):
    sides = both(lab, program(lab, 'h1', 'dtest', '-P', provider), program(lab, 'h2', 'dtest', '-P', provider, '-h', SERVER),
                 tcp_listens(PORT), seconds)
    for side, other in zip(sides, ('client', 'server')):
        require(PASSED in side.text() and f'RDMA read buffer contains: {other} RDMA read data' in side.text(), 'not passed', *sides)


def extensions(provider, lab, seconds):
    """Writes with immediate data, and atomics."""
    sides = both(lab, program(lab, 'h1', 'dtestx', '-P', provider), program(lab, 'h2', 'dtestx', '-P', provider, '-h', SERVER),
                 tcp_listens(PORT), seconds)
    for side in sides:
        for test in ('RDMA_WRITE_WITH_IMMEDIATE_DATA', 'CMP_SWAP', 'FETCH_ADD', 'IB extension test - immed/atomic'):
            require(re.search(f'{test} test ?-? PASSED|{test} test PASSED', side.text()), f'{test} not passed', *sides)


def shared_receive_queue(lab, seconds):
    sides = both(lab, program(lab, 'h1', 'dtestsrq', '-P', 'cma'), program(lab, 'h2', 'dtestsrq', '-P', 'cma', '-h', SERVER),
                 cm_listens(lab), seconds)
    require(all('DAPL RC SRQ Test Complete' in side.text() for side in sides), 'not complete', *sides)


def good(lab, seconds, server, *command):
    done = lab.run('h2', *program(lab, 'h2', *command), timeout=seconds)
    require(done.returncode == 0, f'{" ".join(command)}: status {done.returncode}:\n{done.stdout}', *server)
    return done.stdout


def connections(lab, seconds):
    def work(server):
        said = good(lab, seconds, [server], 'dtestcm', '-P', 'cma', '-h', SERVER)
        require(re.search(r'Connections: .* Num=1000$', said, re.M), said, server)
    served(lab, program(lab, 'h1', 'dtestcm', '-P', 'cma', '-s'), tcp_listens(PORT), work)


def dapltest(lab, seconds):
    def work(server):
        for threads, endpoints, times, operations in TRANSACTIONS:
            said = good(lab, seconds, [server], 'dapltest', '-T', 'T', '-s', SERVER, '-D', 'cma', '-i', str(times), '-t', str(threads),
                        '-w', str(endpoints), '-V', *operations.split())
            received = re.search(r'^Total Recv +: +([0-9.]+) MB', said, re.M)
            require(received and float(received[1]) > 0, said, server)
        said = good(lab, seconds, [server], 'dapltest', '-T', 'P', '-s', SERVER, '-D', 'cma', '-i', '1000', 'RW', '65536', '1')
        require('raw: RW, 1000, 65536' in said, said, server)
        good(lab, seconds, [server], 'dapltest', '-T', 'Q', '-s', SERVER, '-D', 'cma')
        until('it was asked to end and did not', lambda: server.child.poll() == 0, LEFT_SECONDS, server)
        # It says at both ends if data are not those that were sent.
        require('Data check' not in server.text() and 'mismatch' not in server.text(), 'other data', server)
    served(lab, program(lab, 'h1', 'dapltest', '-T', 'S', '-D', 'cma'), cm_listens(lab), work)


def limits(lab, seconds):
    said = lab.run('h2', *program(lab, 'h2', 'dapltest', '-T', 'L', '-D', 'cma', *LIMITS), timeout=seconds)
    require(said.returncode == 0, said.stdout)
    require(set(re.findall(r'^Limitation Test +(\w+)', said.stdout, re.M)) == set(LIMITS), said.stdout)


ROWS = [
    *(Row(f'dtest {provider}', NEEDS, functools.partial(dtest, provider), daily=False) for provider in ('cma', 'scm')),
    *(Row(f'dtestx {provider}', NEEDS, functools.partial(extensions, provider), daily=False) for provider in ('cma', 'scm')),
    Row('dtestsrq', NEEDS, shared_receive_queue),
    Row('dtestcm', NEEDS, connections, daily=False),
    Row('dapltest', NEEDS, dapltest),
    Row('dapltest limits', NEEDS, limits, daily=False),
]
