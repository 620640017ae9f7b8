# SPDX-License-Identifier: BSD-3-Clause
"""The test suites of two wrappers of verbs for Rust, rust-ibverbs and sideway, on one host: they connect QPs to each other or to themselves.

No package has them: docs/programs.md says which programs the rows look for, and which of their tests are left out, and why.
"""

import functools
import re

from rows import Row, require
from uroce_lab import pairs

# suite: its programs, how many tests pass, options, those that are left out
IBVERBS = (('rust-ibverbs-loopback', 30, ('--ignored',), ('advise_mr',)), ('rust-ibverbs-rdmacm', 3, ('--ignored',), ()))
SIDEWAY = (('sideway-unit', 50, (), ()), ('sideway-test_atomic', 2, (), ()), ('sideway-test_cq', 1, (), ()), ('sideway-test_mr_and_cq', 1, (), ()),
           ('sideway-test_post_send', 4, (), ()), ('sideway-test_qp', 1, (), ()))


def command(name, options, skipped, device):
    return ['env', f'IBVERBS_TEST_DEVICE={device}', name, *options, *(word for test in skipped for word in ('--skip', test))]


def suite(programs, lab, seconds):
    for name, least, options, skipped in programs:
        done = lab.run('h1', *command(name, options, skipped, pairs.DEVICE), timeout=seconds)
        found = re.search(r'^test result: ok\. (\d+) passed; 0 failed', done.stdout, re.M)
        require(done.returncode == 0 and found and int(found[1]) >= least, f'{name}: status {done.returncode}\n{done.stdout}')


def row(name, programs):
    return Row(name, {}, functools.partial(suite, programs), built={f"{name}'s tests": programs[0][0]})


ROWS = [row('rust-ibverbs', IBVERBS), row('sideway', SIDEWAY)]
