# SPDX-License-Identifier: BSD-3-Clause
"""What runs on which wire."""

import cells
import cm_programs

VETH = ('--wire', 'veth', '--switch', '--hosts', '1', '--pmd')
# What uroce receives is lost, doubled, and passed by what was sent after it.
IMPAIR = 'loss=0.01,dup=0.01,reorder=0.01,gap=3,seed=18'
PROGRAM_PORT = 18515
PATIENT = cells.PATIENT

# -u: the timeout of QPs; a guest that has hardly a processor needs longer than perftest's 67 ms, eight times, for what
# sixteen QPs send at once. -o: perftest takes its own device's largest number of outstanding READs for its peer's.
PROGRAMS = (
    ('ibv_rc_pingpong', '-n 100 -s 5001 -m 1024', 4),
    ('ibv_uc_pingpong', '-n 100 -s 5001 -m 1024', 6),
    ('ibv_ud_pingpong', '-n 100 -s 1000', 4),
    ('ibv_srq_pingpong', '-n 100 -s 3000 -q 4', 6),
    ('ib_send_bw', f'-F -u {PATIENT} -n 100 -s 65536 -m 1024', 4),
    ('ib_send_lat', f'-F -u {PATIENT} -n 100 -s 100', 6),
    ('ib_write_bw', f'-F -u {PATIENT} -n 100 -s 65536 -m 4096', 6),
    ('ib_write_bw', f'-F -u {PATIENT} -n 50 -s 10000 -q 16', 4),
    ('ib_write_lat', f'-F -u {PATIENT} -n 100 -s 8', 4),
    ('ib_read_bw', f'-F -u {PATIENT} -o 16 -n 100 -s 65536 -m 1024', 4),
    ('ib_read_lat', f'-F -u {PATIENT} -o 16 -n 100 -s 5000', 6),
    ('ib_atomic_bw', f'-F -u {PATIENT} -o 16 -n 100 -A FETCH_AND_ADD', 4),
    ('ib_atomic_lat', f'-F -u {PATIENT} -o 16 -n 100 -A CMP_AND_SWAP', 6),
    ('ib_send_bw', f'-F -u {PATIENT} -n 100 -c UD -s 1000', 4),
    ('ib_send_lat', f'-F -u {PATIENT} -n 100 -c UC -s 3000', 6),
)
SOME_PROGRAMS = tuple(PROGRAMS[i] for i in (0, 5, 6, 9))


class Stage:
    """Cells and programs on one wire."""

    def __init__(self, name, lab, some_cells, programs=(), connecting=()):
        self.name = name
        self.lab = lab
        self.cells = list(some_cells)
        self.programs = programs
        self.connecting = connecting        # programs of rdma_cm


def whole():
    yield Stage('af_packet', (*VETH, 'af_packet'), cells.whole((1024, 4096)), PROGRAMS, cm_programs.PROGRAMS)
    yield Stage('af_xdp', (*VETH, 'af_xdp'), cells.whole((1024, 2048)))
    yield Stage('af_packet, bad wire', (*VETH, 'af_packet', '--impair', IMPAIR), cells.impaired((1024, 4096)))


def some():
    yield Stage('af_packet', (*VETH, 'af_packet'), cells.some((1024, 4096)), SOME_PROGRAMS, cm_programs.SOME)
    yield Stage('af_packet, bad wire', (*VETH, 'af_packet', '--impair', IMPAIR), cells.some_impaired((1024, 4096)))
