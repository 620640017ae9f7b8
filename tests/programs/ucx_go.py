# SPDX-License-Identifier: BSD-3-Clause
"""The tests of UCX's wrapper for Go, in one process on one host: tags, active messages, a listener, memory, workers that sleep.

No package has them: docs/programs.md says which program the rows look for.
"""

import functools

from rows import Row, require
from ucx import by

BUILT = {"the tests of UCX's wrapper for Go": 'ucx-go-test'}
TESTS = ('TestUcpContext', 'TestUcpEpTag', 'TestUcpEpAm', 'TestUcpListener', 'TestUcpMmap', 'TestUcpWorkerEfd', 'TestUcpWorkerWakeup')


def tests(transport, lab, seconds):
    done = lab.run('h1', *by(lab, f'{transport},self', 'ucx-go-test', '-test.v'), timeout=seconds)
    missing = [test for test in TESTS if f'--- PASS: {test} ' not in done.stdout]
    require(done.returncode == 0 and not missing and '--- FAIL' not in done.stdout, f'status {done.returncode}, not passed: {missing}\n{done.stdout}')


ROWS = [Row(f'ucx go {transport}', {'libucx0': '/usr/lib/*/libucp.so.0'}, functools.partial(tests, transport), daily=False, built=BUILT)
        for transport in ('rc', 'ud')]
