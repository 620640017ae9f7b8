# SPDX-License-Identifier: BSD-3-Clause
"""Mooncake's transfer engine: its tests of RDMA, also over loss, its example that compares, its benchmark, and a target that is killed.

No package has it: docs/programs.md says which programs the rows look for.
"""

import contextlib
import os
import re
import signal
import time

from labs import lab_command
from rows import LEFT_SECONDS, READY_SECONDS, SERVER, Row, require, until
from uroce_lab import pairs
from uroce_lab.telemetry import ask

EXAMPLES = {"Mooncake's examples": 'transfer_engine_validator', "Mooncake's benchmark": 'transfer_engine_bench'}
TESTS = {"Mooncake's tests": 'mooncake-rdma_transport_test2', "Mooncake's test of one host": 'mooncake-rdma_loopback_test'}
CLIENT = '198.18.0.2'
MTU = 4096
DURATION = 8                # seconds of a run of an example
LONG = 60                   # the same where the target is killed
LOSS = 0.01
BUFFER_BYTES = 1 << 26
# Each of its threads spins: one per device, not two, leaves the others some CPU.
SETTINGS = ('env', 'MC_WORKERS_PER_CTX=1')
COMMON = ('--metadata_server=P2PHANDSHAKE', '--protocol=rdma', '--device_name=uroce0')
TESTED_BYTES = 4096000      # of each of the tests' transfers
TESTED_WRITES, TESTED_READS = 20, 10
LOOPED_WRITES = 200


def count(lab, host, what):
    return len(ask(lab.data, lab.hosts[host], f'/uroce/{what}')['numbers'])


def sent(lab, host):
    """@return how many packets, those to the host itself among them"""
    return ask(lab.data, lab.hosts[host], '/uroce/engine,0')['transport']['tx_packets']


def target_command():
    return [*SETTINGS, 'transfer_engine_validator', *COMMON, '--mode=target', '--threads=1', f'--local_server_name={SERVER}',
            f'--buffer_size={BUFFER_BYTES}', '--logtostderr']


@contextlib.contextmanager
def target(lab):
    """A target on h1. @return its side and its name, whose port it has picked"""
    until('memory of an earlier program is left', lambda: not count(lab, 'h1', 'mr'), LEFT_SECONDS)
    side = pairs.Side(lab, 'h1', target_command())
    try:
        until('the target has registered no memory', lambda: count(lab, 'h1', 'mr') or side.child.poll() is not None, READY_SECONDS, side)
        listens = re.search(rf'listening on ({re.escape(SERVER)}:\d+)$', side.text(), re.M)
        require(listens, 'the target does not listen', side)
        yield side, listens[1]
    finally:
        side.kill()


def ends(side):
    """A target ends when it is asked to."""
    side.child.terminate()
    require(side.wait(time.monotonic() + READY_SECONDS) and side.status == 0, 'the target does not end', side)


def initiator(name, program, *more):
    return [*SETTINGS, program, *COMMON, f'--local_server_name={CLIENT}', f'--segment_id={name}', *more]


def example(name, program, threads, blocks, block_bytes, duration, *more):
    return initiator(name, program, '--logtostderr', f'--threads={threads}', f'--batch_size={blocks}', f'--block_size={block_bytes}',
                     f'--buffer_size={BUFFER_BYTES}', f'--duration={duration}', *more)


def transfers(lab, seconds, program, senders, threads, blocks, block_bytes, *more):
    """Run an example to its end. `senders`: the hosts whose devices send the bytes of each batch."""
    with target(lab) as (side, name):
        before = {host: sent(lab, host) for host in senders}
        done = lab.run('h2', *example(name, program, threads, blocks, block_bytes, DURATION, *more), timeout=seconds)
        batches = re.search(r'Test completed: .* batch count (\d+)', done.stdout)
        require(done.returncode == 0 and batches and int(batches[1]) > 0 and 'FAILED' not in done.stdout, f'status {done.returncode}:\n{done.stdout}', side)
        for host, packets in before.items():
            require(sent(lab, host) - packets >= int(batches[1]) * blocks * block_bytes // MTU, f'by another way:\n{done.stdout}', side)
        ends(side)


# Threads, blocks of a batch, bytes of a block. The second run looks for devices itself, and its blocks are sent in slices of 64 KiB.
SIZES = ((4, 8, 65536), (2, 4, 1000000, '--auto_discovery'))


def validator(lab, seconds):
    """It compares what it has read in one batch of 64."""
    for size in SIZES:
        transfers(lab, seconds, 'transfer_engine_validator', ('h1', 'h2'), *size)


def bench(lab, seconds):
    for operation, sender in (('read', 'h1'), ('write', 'h2')):
        transfers(lab, seconds, 'transfer_engine_bench', (sender,), 4, 8, 65536, f'--operation={operation}')


def gtest(lab, host, seconds, passed, senders, *program):
    """`senders`: hosts, and how many of the transfers are theirs to send."""
    before = {sender: sent(lab, sender) for sender in senders}
    done = lab.run(host, *program, timeout=seconds)
    require(done.returncode == 0 and f'[  PASSED  ] {passed} test' in done.stdout and 'FAILED' not in done.stdout, f'status {done.returncode}:\n{done.stdout}')
    for sender, number in senders.items():
        require(sent(lab, sender) - before[sender] >= number * TESTED_BYTES // MTU, f'by another way:\n{done.stdout}')


def pair_of_tests(lab, seconds):
    """Random bytes are written, read back and compared."""
    with target(lab) as (side, name):
        gtest(lab, 'h2', seconds, 2, {'h2': TESTED_WRITES, 'h1': TESTED_READS}, *initiator(name, 'mooncake-rdma_transport_test2'))
        ends(side)


def tests(lab, seconds):
    """On one host each write is compared."""
    pair_of_tests(lab, seconds)
    gtest(lab, 'h1', seconds, 1, {'h1': LOOPED_WRITES}, *SETTINGS, 'mooncake-rdma_loopback_test', COMMON[0])


def tests_over_loss(lab, seconds):
    lab_command('impair', '--name', lab.name, 'all', f'loss={LOSS}')
    try:
        pair_of_tests(lab, seconds)
    finally:
        lab_command('impair', '--name', lab.name, 'all', 'none')


def killed(lab, seconds):
    """An initiator whose target is killed says that a transfer has failed, and ends with an error. With two threads both call exit(), and it may crash."""
    with target(lab) as (side, name):
        before = sent(lab, 'h2')
        one = pairs.Side(lab, 'h2', example(name, 'transfer_engine_validator', 1, 8, 65536, LONG))
        try:
            until('nothing is sent', lambda: sent(lab, 'h2') - before > 1000, READY_SECONDS, side, one)
            os.kill(side.child.pid, signal.SIGKILL)
            require(one.wait(time.monotonic() + seconds / 2), 'it does not end', one)
            require(one.status == 1 and 'transport retry counter exceeded' in one.text() and 'FAILED' in one.text(), 'another end', one)
        finally:
            one.kill()
    for host in lab.hosts:
        until(f'{host}: QPs are left', lambda host=host: not count(lab, host, 'qp'), LEFT_SECONDS)


ROWS = [
    Row('mooncake validator', {}, validator, seconds=60, daily=False, built=EXAMPLES),
    Row('mooncake bench', {}, bench, seconds=60, daily=False, built=EXAMPLES),
    Row('mooncake tests', {}, tests, seconds=120, daily=False, built={**EXAMPLES, **TESTS}),
    Row('mooncake tests loss', {}, tests_over_loss, seconds=120, daily=False, built={**EXAMPLES, **TESTS}),
    Row('mooncake killed', {}, killed, seconds=60, daily=False, built=EXAMPLES),
]
