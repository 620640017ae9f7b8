# SPDX-License-Identifier: BSD-3-Clause
"""UCX's own tests of its transports rc_verbs and ud_verbs, and of what UCP makes of them, on one host.

No package has them: docs/programs.md says which program the rows look for, which of the tests are left out, and why.
"""

import functools
import re

from rows import Row, require
from ucx import by

BUILT = {"UCX's gtest": 'ucx-gtest'}
# Speeds, and messages of 1.5 GB: minutes. The others may end by an assertion of UCX's own.
LEFT_OUT = ('*test_uct_perf*', '*rma_test*zcopy*', '*.purge_failed_peer*', '*test_uct_peer_failure_multiple*', '*uct_cancel_test*',
            '*uct_p2p_rma_test_xfer.fence*')


def tests(selection, least, lab, seconds):
    done = lab.run('h1', *by(lab, 'all', 'ucx-gtest', f'--gtest_filter={selection}-{":".join(LEFT_OUT)}', UCX_HANDLE_ERRORS='none',
                             UCX_WARN_UNUSED_ENV_VARS='n'), timeout=seconds)
    passed = re.search(r'^\[  PASSED  \] (\d+) tests?\.', done.stdout, re.M)
    skipped = len(re.findall(r'^\[     SKIP \]', done.stdout, re.M))
    require(done.returncode == 0 and passed and int(passed[1]) - skipped >= least, f'status {done.returncode}, {skipped} skipped\n{done.stdout}')


def row(name, selection, least, seconds):
    return Row(f'ucx gtest {name}', {}, functools.partial(tests, selection, least), seconds=seconds, daily=False, built=BUILT)


ROWS = [
    row('rc', 'rc_verbs/*', 150, 400),
    row('ud', 'ud_verbs/*', 110, 400),
]
