# SPDX-License-Identifier: BSD-3-Clause
"""qperf's RDMA tests with connections of rdma_cm (-cm 1). Without, it gives no GID, which RoCE can't do without. `ver_` tests check the result of atomics."""

import functools
import re

from rows import SERVER, Row, require, tcp_listens, until
from uroce_lab import pairs

PORT = 19765
READY_SECONDS = 20
NEEDS = {'qperf': 'qperf'}
TESTS = ('rc_bw', 'rc_lat', 'rc_bi_bw', 'rc_rdma_read_bw', 'rc_rdma_read_lat', 'rc_rdma_write_bw', 'rc_rdma_write_lat', 'rc_rdma_write_poll_lat',
         'ver_rc_compare_swap', 'ver_rc_fetch_add')
DAILY = ('rc_bi_bw', 'rc_rdma_write_poll_lat', 'ver_rc_fetch_add')


def measure(test, lab, seconds):
    server = pairs.Side(lab, 'h1', ['qperf'])
    try:
        until('qperf does not listen', lambda: tcp_listens(PORT)(server) or server.child.poll() is not None, READY_SECONDS, server)
        done = lab.run('h2', 'qperf', '-t', '1', '-cm', '1', SERVER, test, timeout=seconds)
        found = re.search(r'(?:bw|latency|msg_rate) += +([0-9.]+)', done.stdout)
        require(done.returncode == 0 and found and float(found[1]) > 0, f'status {done.returncode}:\n{done.stdout}', server)
    finally:
        server.kill()       # it serves for ever


ROWS = [Row(f'qperf {test}', NEEDS, functools.partial(measure, test), daily=test in DAILY) for test in TESTS]
