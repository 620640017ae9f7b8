# SPDX-License-Identifier: BSD-3-Clause
"""fabtests, libfabric's own tests: connections over `verbs`, and what `ofi_rxd` makes of datagrams for endpoints `rdm`.

No package has them: docs/programs.md says which programs the rows look for, and why some of the tests are not here. Tests with -v compare what they receive.
"""

import functools

from rows import SERVER, Row, both, cm_listens, require

CLIENT = '198.18.0.2'
OOB_PORT = 3000             # what the two sides tell each other by TCP, with -b and in some tests always: its own default
NEEDS = {'libfabric1': '/usr/lib/*/libfabric.so.1'}
BUILT = {'fabtests': 'fi_rdm_tagged_pingpong'}

MSG = (
    'fi_msg', 'fi_msg_epoll', 'fi_msg_sockets', 'fi_cm_data', 'fi_cq_data -e msg', 'fi_msg_pingpong -I 5 -v', 'fi_msg_bw -I 5 -v',
    'fi_rma_bw -e msg -I 5 -o write', 'fi_rma_bw -e msg -I 5 -o read', 'fi_rma_bw -e msg -I 5 -o writedata -v',
    'fi_multi_ep -e msg -v', 'fi_bw -e msg -v -T 1', 'fi_msg_inject -A inject -v', 'fi_msg_inject -N -A inject -v',
    'fi_shared_ctx -e msg --no-tx-shared-ctx',
)
# ofi_rxd takes minutes for all their sizes: it makes 1 MiB of 256 datagrams.
SIZES = (
    'fi_rdm_pingpong -v', 'fi_rdm_pingpong -v -U', 'fi_rdm_tagged_pingpong -v', 'fi_rdm_tagged_pingpong -v -U', 'fi_rdm_tagged_bw -v', 'fi_rdm_tagged_bw -v -U',
    'fi_rma_bw -e rdm -o write', 'fi_rma_bw -e rdm -o read', 'fi_rma_bw -e rdm -o writedata -v',
)
RXD = (
    'fi_rdm', 'fi_rdm -U', 'fi_cq_data -e rdm', 'fi_av_xfer -e rdm', 'fi_multi_ep -e rdm -v', 'fi_recv_cancel -e rdm',
    'fi_rdm_multi_client -C 10 -I 5', 'fi_unexpected_msg -e rdm -I 10', 'fi_bw -e rdm -v -T 1 -I 100 -S 4096', 'fi_rdm_atomic -I 2 -o all -z uint64',
    *(f'{test} -I 5 -w 1 -S 65536' for test in SIZES),
)
UNIT = ('fi_getinfo_test', 'fi_eq_test', 'fi_cq_test', 'fi_mr_test')


def two_sides(provider, domain, options, tests, lab, seconds):
    def ready(side):
        return side.listens(OOB_PORT) or cm_listens(lab)(side)

    for test in tests:
        program = [*test.split(), '-p', provider, '-d', domain, *options, '-s']
        both(lab, [*program, SERVER], [*program, CLIENT, SERVER], ready, seconds)


def alone(lab, seconds):
    for test in UNIT:
        done = lab.run('h1', test, '-p', 'verbs', '-d', 'uroce0', timeout=seconds)
        require(done.returncode == 0 and 'Summary: all tests passed' in done.stdout, f'{test}: status {done.returncode}\n{done.stdout}')


def row(name, *what):
    return Row(f'fabtests {name}', NEEDS, functools.partial(two_sides, *what), seconds=60, daily=False, built=BUILT)


ROWS = [
    row('verbs', 'verbs', 'uroce0', [], MSG),
    row('ofi_rxd', 'verbs;ofi_rxd', 'uroce0-dgram', ['-b'], RXD),
    Row('fabtests alone', NEEDS, alone, daily=False, built=BUILT),
]
