# SPDX-License-Identifier: BSD-3-Clause
"""fi_pingpong of libfabric. With -c it compares every message with what was sent, and so do both sides here with what they count."""

import functools

from rows import SERVER, Row, both, require, tcp_listens

PORT = 47592                # its own default, for what the two sides tell each other by TCP
TIMES = 100
NEEDS = {'libfabric-bin': 'fi_pingpong'}
SIZES = ('64', '256', '1k', '4k', '64k', '1m')
ENDPOINTS = (('verbs', 'msg', SIZES), ('verbs', 'dgram', SIZES[:4]), ('verbs;ofi_rxm', 'rdm', SIZES))


def pingpong(provider, endpoint, sizes, lab, seconds):
    program = ['fi_pingpong', '-p', provider, '-e', endpoint, '-d', 'uroce0' + ('-dgram' if endpoint == 'dgram' else ''), '-I', str(TIMES), '-c']
    sides = both(lab, program, [*program, SERVER], tcp_listens(PORT), seconds)
    for side in sides:
        found = [line.split()[:3] for line in side.text().splitlines() if line[:1].isdigit()]
        require(found == [[size, str(TIMES), '=' + str(TIMES)] for size in sizes], 'not every size was there and back', *sides)


ROWS = [Row(f'fi_pingpong {endpoint} {provider}', NEEDS, functools.partial(pingpong, provider, endpoint, sizes))
        for provider, endpoint, sizes in ENDPOINTS]
