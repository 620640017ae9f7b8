# SPDX-License-Identifier: BSD-3-Clause
"""What is tried between uroce and Soft-RoCE: the lines that peer.c reads."""

UROCE = 'uroce'
RXE = 'rxe'
BOTH = (UROCE, RXE)

# enum ibv_wc_status
SUCCESS, LOC_LEN, LOC_QP_OP, REM_INV_REQ, REM_ACCESS, REM_OP, RETRY_EXC, RNR_RETRY_EXC = 0, 1, 2, 9, 10, 11, 12, 13

RC = ('send', 'send_imm', 'send_both', 'srq_send', 'srq_send_imm', 'write', 'write_imm', 'read')
UC = ('uc_send', 'uc_send_imm', 'uc_write', 'uc_write_imm')
UD = ('ud_send', 'ud_send_imm', 'ud_multicast')
ATOMIC = ('fetch_add', 'cmp_swap')
WINDOW = ('send_inv', 'window_write', 'stale_window')

# Where Soft-RoCE's answer is not the specification's; docs/interop.md shows it from its source.
# By responder: what the sender of a message gets that is longer than its receive, and what its receive gets.
TOO_LONG = {UROCE: (REM_INV_REQ, LOC_LEN), RXE: (REM_OP, LOC_QP_OP)}
RXE_WITH_INV = 1 << 2       # the kernel's IB_WC_WITH_INVALIDATE where a program expects IBV_WC_WITH_INV, 1 << 3

WRAP_PSN = 0xfffff0         # sixteen packets before the PSN begins anew
# 1 s, seven times: a guest without hardware virtualisation on a busy machine may need a while. An impaired wire loses
# packets that only a timer brings back: 134 ms.
PATIENT, IMPAIRED = 18, 15
SHORT = 10                  # 4 ms, for what is never answered


class Cell:
    """One cell. `requester` is uroce or rxe; what else there is are words of peer.c."""

    def __init__(self, kind, requester, **words):
        self.kind = kind
        self.requester = requester
        self.words = {'size': 64, 'mtu': 1024, 'ip': 4, 'count': 1, **words}

    @property
    def responder(self):
        return RXE if self.requester == UROCE else UROCE

    def line(self):
        """uroce leads."""
        words = {'kind': self.kind, 'from': 'leader' if self.requester == UROCE else 'follower', **self.words}
        return ' '.join(f'{key}={value}' for key, value in words.items())

    @property
    def name(self):
        return f'{self.requester} {self.kind} ' + ' '.join(f'{key}={value}' for key, value in self.words.items())


def sizes(mtu):
    return (0, 1, 64, mtu, mtu + 1, 65536, 1 << 20)


def count(size):
    return 3 if size <= 65536 else 1


def messages(kinds, mtu, ip, some_sizes, **words):
    for kind in kinds:
        for size in some_sizes:
            for requester in BOTH:
                yield Cell(kind, requester, size=size, mtu=mtu, ip=ip, count=count(size), **words)


def datagrams(ip, some_sizes):
    for kind in UD:
        for size in some_sizes:
            for requester in BOTH:
                yield Cell(kind, requester, size=size, mtu=4096, ip=ip, count=3)


def others(mtu, ip, **words):
    """What has no choice of sizes."""
    for requester in BOTH:
        for kind in ATOMIC + WINDOW:
            more = {'want': REM_ACCESS} if kind == 'stale_window' else {}
            if requester == UROCE and kind in ('send_inv', 'stale_window'):
                more['inv'] = RXE_WITH_INV
            yield Cell(kind, requester, mtu=mtu, ip=ip, **more, **words)
        yield Cell('send_solicited', requester, mtu=mtu, ip=ip, **words)


def wraps(mtu, ip, **words):
    for requester in BOTH:
        for kind in ('send', 'write', 'read', 'send_both'):
            yield Cell(kind, requester, size=65536, mtu=mtu, ip=ip, psn=WRAP_PSN, count=3, **words)
        yield Cell('fetch_add', requester, mtu=mtu, ip=ip, psn=0xfffffc, **words)


def faults(mtu, ip):
    for requester in BOTH:
        def cell(kind, want, **words):
            return Cell(kind, requester, mtu=mtu, ip=ip, want=want, **words)
        yield Cell('rnr', requester, mtu=mtu, ip=ip, size=3000, count=3, pause=30)
        yield Cell('rnr_write_imm', requester, mtu=mtu, ip=ip, size=3000, count=3, pause=30)
        yield cell('rnr_expired', RNR_RETRY_EXC, rnr=2)
        yield cell('nobody', RETRY_EXC, timeout=SHORT, retry=3)
        status, peer_status = TOO_LONG[cell('too_long', 0).responder]
        yield cell('too_long', status, size=3000, peer=peer_status)
        for op in ('write', 'read', 'atomic'):
            yield cell(f'bad_rkey_{op}', REM_ACCESS)
            yield cell(f'bad_addr_{op}', REM_ACCESS)
        if requester == UROCE:
            yield cell('misaligned_atomic', REM_INV_REQ)    # Soft-RoCE refuses to post it (rxe_verbs.c)


def fields(ip):
    """What a program chooses of the headers: traffic class 0x68 is DSCP 26; a flow label gives the source port."""
    for requester in BOTH:
        for kind in ('write', 'uc_send', 'ud_send'):
            yield Cell(kind, requester, ip=ip, tclass=0x68, flow=0x54321)


def whole(mtus, families=(4, 6)):
    """Every cell."""
    for ip in families:
        for mtu in mtus:
            yield from messages(RC + UC, mtu, ip, sizes(mtu))
            yield from others(mtu, ip)
            yield from wraps(mtu, ip)
            yield from faults(mtu, ip)
        yield from datagrams(ip, sizes(1024)[:4] + ((4096,) if max(mtus) == 4096 else ()))
        yield from fields(ip)


def some(mtus):
    """Each kind, each size, each MTU, both families, both ways, but not all of them with each other."""
    low, high = min(mtus), max(mtus)
    for mtu, ip in ((low, 4), (high, 6)):
        yield from messages(RC, mtu, ip, (0, mtu + 1, 65536))
        yield from messages(UC, mtu, ip, (1, 65536))
        yield from others(mtu, ip)
        yield from wraps(mtu, ip)
        yield from faults(mtu, ip)
        yield from fields(ip)
    yield from messages(('send', 'write', 'read'), low, 6, (1, 64, low, 1 << 20))
    yield from messages(('send', 'write', 'read'), high, 4, (1, 64, high, 1 << 20))
    yield from datagrams(4, (0, 1024))
    yield from datagrams(6, (1, 1024, high if high == 4096 else 64))


def arriving(cells):
    """Without those whose request is refused: the responder is in ERR afterwards, and answers nothing more if its NAK is lost."""
    return (cell for cell in cells if cell.kind != 'stale_window')


def impaired(mtus, families=(4, 6)):
    """What must arrive whatever the wire does."""
    for ip in families:
        for mtu in mtus:
            yield from messages(RC, mtu, ip, sizes(mtu), timeout=IMPAIRED)
            yield from arriving(others(mtu, ip, timeout=IMPAIRED))
            yield from wraps(mtu, ip, timeout=IMPAIRED)


def some_impaired(mtus):
    yield from messages(RC, min(mtus), 4, (64, 65536), timeout=IMPAIRED)
    yield from messages(('send', 'write', 'read'), max(mtus), 6, (1 << 20,), timeout=IMPAIRED)
    yield from arriving(others(max(mtus), 6, timeout=IMPAIRED))
    yield from wraps(min(mtus), 4, timeout=IMPAIRED)
