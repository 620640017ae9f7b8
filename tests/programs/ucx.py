# SPDX-License-Identifier: BSD-3-Clause
"""UCX's own programs: its examples are compiled from the source that libucx-dev brings, io_demo comes with ucx-utils.

ucx_perftest: tests/verbs/test_ucx.py has a selection; here are its other tests, and those that sleep for completions.
"""

import functools
import os
import re
import subprocess
import time

from rows import READY_SECONDS, SERVER, Row, both, cm_listens, require, served, tcp_listens, until
from uroce_lab import pairs

EXAMPLES = '/usr/share/doc/libucx-dev/examples'
NEEDS = {'libucx-dev': EXAMPLES + '/ucp_hello_world.c', 'gcc': 'gcc'}
UTILS = {'ucx-utils': 'ucx_perftest'}
PORT = 13337                # the examples' own
PERFTEST_PORT = 13338
WORDS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
TRANSFERS = 500             # io_demo's

# ucx_perftest under UCP: test, size.
TESTS = (
    ('tag_lat', 8), ('tag_bw', 65536), ('tag_sync_lat', 1000), ('tag_sync_bw', 100000), ('ucp_put_lat', 64), ('ucp_put_bw', 65536), ('ucp_get', 65536),
    ('stream_bw', 4096), ('stream_lat', 64), ('ucp_am_lat', 2000), ('ucp_am_bw', 65536),
    ('ucp_add', 8), ('ucp_fadd', 8), ('ucp_swap', 8), ('ucp_cswap', 8),
)


def by(lab, transport, *program, **environment):
    settings = {'UCX_NET_DEVICES': 'uroce0:1', 'UCX_TLS': transport, **environment}
    return [lab.data['programs']['uroce-run'], 'env', *(f'{name}={value}' for name, value in settings.items()), *program]


def compiled(lab, name):
    path = os.path.join(lab.data['dir'], name)
    if not os.path.exists(path):
        subprocess.run(['gcc', '-O1', '-w', '-o', path, f'{EXAMPLES}/{name}.c', '-lucp', '-luct', '-lucs'], check=True)
    return path


def ucp_hello(lab, seconds):
    """By polling, by a wait for an event and by poll() of its descriptor."""
    for transport in ('rc', 'ud'):
        for option in ('-b', '-w', '-f'):
            program = by(lab, transport + ',self', compiled(lab, 'ucp_hello_world'), option, '-s', '1000')
            sides = both(lab, program, [*program, '-n', SERVER], tcp_listens(PORT), seconds)
            text = sides[1].text()
            require('UCP TEST SUCCESS' in text and (WORDS * 39)[:999] in text, f'{transport} {option}', *sides)


# UCX looks for peers that are gone every 20 s, and gives up after many more, unless it is told otherwise.
HASTE = {'UCX_KEEPALIVE_INTERVAL': '1s', 'UCX_UD_TIMEOUT': '4s', 'UCX_WARN_UNUSED_ENV_VARS': 'n'}


def peer_killed(transport, lab, seconds):
    """One of the two kills itself: before it sends, before it receives, or when all is done. The other is told so by its endpoint."""
    for kind, victim in (('send', 0), ('recv', 1), ('keepalive', 1)):
        program = by(lab, f'{transport},self', compiled(lab, 'ucp_hello_world'), '-e', kind, **HASTE)
        end = time.monotonic() + seconds / 3
        sides = [pairs.Side(lab, 'h1', program)]
        try:
            until('the server does not listen', lambda: tcp_listens(PORT)(sides[0]) or sides[0].child.poll() is not None, READY_SECONDS, *sides)
            sides.append(pairs.Side(lab, 'h2', [*program, '-n', SERVER]))
            for side in sides:
                side.wait(end)
        finally:
            for side in sides:
                side.kill()
        require('failure handler called with status -80 (Endpoint timeout)' in sides[1 - victim].text(), f'{transport} {kind}', *sides)
        require(sides[victim].status in (-9, 137), f'{transport} {kind}: the victim lived', *sides)


def uct_hello(lab, seconds):
    """UCT's active messages: short ones, ones that are copied and ones that are not."""
    for transport in ('rc_verbs', 'ud_verbs'):
        for option in ('-i', '-b', '-z'):
            program = by(lab, 'all', compiled(lab, 'uct_hello_world'), '-d', 'uroce0:1', '-t', transport, option)
            sides = both(lab, program, [*program, '-n', SERVER], tcp_listens(PORT), seconds)
            require('UCT TEST SUCCESS' in sides[0].text() and sides[0].text().count(WORDS[:15]) == 2, f'{transport} {option}', *sides)


def failures(kind, said):
    """@return what has failed, but for closing when the other side has, and for what it may lose over streams by that: of 50 messages not the first"""
    said = re.sub(r'failed to close ep 0x[0-9a-f]+', '', said)
    if kind == 'stream':
        said = re.sub(r'server failed on iteration #(?!1\n)\d+\n', '', said)
    return [line[-200:] for line in said.splitlines() if 'failed' in line]


def client_server(lab, seconds):
    """A connection by rdma_cm, over streams, tags and active messages.

    Each side closes by force when it has done its part. What the other one hasn't taken by then it loses (docs/programs.md), so over streams an end may be missing.
    """
    for kind in ('stream', 'tag', 'am'):
        program = by(lab, 'rc,self', compiled(lab, 'ucp_client_server'), '-c', kind, '-s', '100000', '-i', '50',
                     UCX_SOCKADDR_TLS_PRIORITY='rdmacm')

        def work(server, program=program, kind=kind):
            done = lab.run('h2', *program, '-a', SERVER, timeout=seconds)
            wrong = failures(kind, done.stdout) + failures(kind, server.text())
            require(done.returncode == 0 and not wrong and 'UCP TEST SUCCESS' in server.text(), f'{program}: status {done.returncode}, {wrong}', server)
        served(lab, [*program, '-l', SERVER], cm_listens(lab), work)


def io_demo(lab, seconds):
    """-q: it compares what was read and written."""
    sizes = ('-d', '1:100000', '-q')
    for option in ((), ('-A',)):
        def work(server, option=option):
            done = lab.run('h2', *by(lab, 'rc,self', 'io_demo', *option, *sizes, '-o', 'read,write', '-i', str(TRANSFERS), '-w', '16', SERVER),
                           timeout=seconds)
            require(done.returncode == 0 and 'rror' not in done.stdout, f'status {done.returncode}:\n{done.stdout}', server)
            require(server.child.poll() is None, 'the server ended', server)
        served(lab, by(lab, 'rc,self', 'io_demo', *option, *sizes), cm_listens(lab), work)


# Only these: who is written to or read from has no completion, and so nothing that wakes it.
ASLEEP = tuple(test for test in TESTS if test[0].startswith(('tag', 'stream', 'ucp_am')))


def not_by_mpi():
    """An option of Debian 13's ucx_perftest, which uses MPI if its stdin is no terminal; Debian 12's doesn't know it."""
    said = subprocess.run(['ucx_perftest', '-h'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors='replace', check=False).stdout
    return ['-P', '0'] if re.search(r'^\s+-P\b', said, re.M) else []


def perftest(transport, tests, options, lab, seconds):
    options = [*not_by_mpi(), *options]
    for test, size in tests:
        program = by(lab, f'{transport},self', 'ucx_perftest', '-t', test, '-s', str(size), '-n', '200', '-w', '5', '-p', str(PERFTEST_PORT), *options)
        sides = both(lab, program, [*program, SERVER], tcp_listens(PERFTEST_PORT), seconds)
        require('Final:' in sides[1].text(), f'{transport} {test}', *sides)


def info(lab, seconds):
    """The device as UCX sees it, and the transports that it has for it."""
    said = lab.run('h1', *by(lab, 'all', 'ucx_info', '-d'), timeout=seconds).stdout
    for transport in ('rc_verbs', 'ud_verbs'):
        require(re.search(rf'Transport: {transport}\n#\s+Device: uroce0:1\n', said), f'no {transport}:\n{said}')


ROWS = [
    Row('ucp_hello_world', NEEDS, ucp_hello, daily=False),
    *(Row(f'ucp_hello_world -e {transport}', NEEDS, functools.partial(peer_killed, transport), seconds=120, daily=False) for transport in ('rc', 'ud')),
    Row('uct_hello_world', NEEDS, uct_hello, daily=False),
    Row('ucp_client_server', NEEDS, client_server, daily=False),
    Row('io_demo', {'ucx-utils': 'io_demo'}, io_demo),
    *(Row(f'ucx_perftest {name}', UTILS, functools.partial(perftest, transport, tests, options), seconds=90, daily=False)
      for name, transport, tests, options in (('rc', 'rc', TESTS, ()), ('rc sleep', 'rc', ASLEEP, ('-E', 'sleep')), ('ud', 'ud', TESTS, ()))),
    Row('ucx_info', UTILS, info),
]
