# SPDX-License-Identifier: BSD-3-Clause
"""Debian's rdma_cm programs, in pairs: what runs on h1, what on h2, and when the first is ready for the second."""

import typing

from cmlab import IPV4, IPV6

PEER = {IPV4: '198.18.0.2', IPV6: 'fd00:18::2'}
GROUP = {IPV4: '239.18.0.7', IPV6: 'ff0e::18:7'}
JOINED = 'joined dgid'


class Case(typing.NamedTuple):
    server: str
    client: str
    ends: bool = True       # the server ends by itself, and with status 0
    ready: str = ''         # what the server prints when it is ready; '': its listener is counted
    times: int = 1          # clients, one after the other
    early: bool = False     # the client may ask before the server listens; both are tried again then


def rping(address, options=''):
    return Case(f'rping -s {options} -a {address}', f'rping -c {options} -a {address}')


def ucmatose(address, options=''):
    return Case(f'ucmatose -b {address} {options}', f'ucmatose -s {address} {options}')


def udaddy(address, options=''):
    return Case(f'udaddy -b {address} {options}', f'udaddy -s {address} {options}')


def mckey(address, ours='', theirs=''):
    """The receiver first: what is sent before it joins is lost to it."""
    return Case(f'mckey -m {GROUP[address]} -b {address} {ours}', f'mckey -m {GROUP[address]} -s -b {PEER[address]} {theirs}',
                ready=JOINED)


def endpoints(options=''):
    return [Case(f'rdma_server {options}', f'rdma_client -s {IPV4} {options}'),
            Case(f'rdma_xserver {options}', f'rdma_xclient -s {IPV4} {options}'),
            Case(f'rdma_xserver {options} -c x', f'rdma_xclient -s {IPV4} {options} -c x')]


def perftest(program, options=''):
    """With -R it takes IPv4 addresses only. It connects twice and doesn't wait for the second listener: towards Linux too."""
    return Case(f'{program} -R {options}', f'{program} -R {options} {IPV4}', early=True)


PERFTEST = [f'ib_{operation}_{kind}' for operation in ('write', 'send', 'read', 'atomic') for kind in ('bw', 'lat')]


def selection():
    """What scripts/test has time for."""
    yield rping(IPV4, '-v -V -C 20')
    yield rping(IPV6, '-C 20 -S 60000 -q')
    yield ucmatose(IPV4, '-c 50 -C 20')
    yield ucmatose(IPV6, '-m -t 96')
    yield udaddy(IPV4)
    yield udaddy(IPV6, '-c 3 -C 5')
    yield mckey(IPV6)
    yield from endpoints()
    for program in ('ib_write_bw', 'ib_send_lat'):
        yield perftest(program, options='-n 200')


def everything():
    for address in (IPV4, IPV6):
        yield rping(address, '-v -V -C 100')
        yield rping(address, '-C 10000')
        yield rping(address, '-V -C 100 -S 65535')
        yield rping(address, '-V -C 100 -q')
        yield Case(f'rping -s -P -a {address}', f'rping -c -V -C 100 -a {address}', ends=False, times=3)
        yield ucmatose(address)
        yield ucmatose(address, '-c 100')
        yield ucmatose(address, '-c 20 -C 100 -S 4096')
        yield ucmatose(address, '-m')
        yield ucmatose(address, '-t 96')
        yield udaddy(address)
        yield udaddy(address, '-c 20 -C 20 -S 1000')
        yield mckey(address)
        yield mckey(address, '-C 100 -S 1000', '-C 100 -S 1000')
        # Its server waits for the next client, for ever.
        yield Case(f'cmtime -b {address}', f'cmtime -s {address} -c 200', ends=False)
    yield from endpoints()
    yield from endpoints('-p 7777')
    for program in PERFTEST:
        yield perftest(program)


def lossy():
    """
    Each program while the wire loses packets. Datagrams that are lost stay lost, and udaddy and mckey wait for all of them:
    udaddy only finds its peer here, mckey's sender sends far more than its receiver waits for.
    """
    for address in (IPV4, IPV6):
        yield rping(address, '-v -V -C 100')
        yield rping(address, '-V -C 50 -S 60000 -q')
        yield ucmatose(address, '-c 20')
        yield ucmatose(address, '-m -t 96')
        yield udaddy(address, '-C 0')
        yield mckey(address, '-C 10', '-C 1000')
        yield Case(f'cmtime -b {address}', f'cmtime -s {address} -c 20', ends=False)
    yield Case(f'rping -s -P -a {IPV4}', f'rping -c -V -C 10 -a {IPV4}', ends=False, times=3)
    yield from endpoints()
    for program in PERFTEST:
        yield perftest(program, options='-n 200')
