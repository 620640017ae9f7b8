# SPDX-License-Identifier: BSD-3-Clause
"""DiSNI, RDMA for Java: its examples and benchmarks, connected by rdma_cm.

No package has it: docs/programs.md says which program the rows look for.
"""

import functools

from rows import SERVER, Row, both, cm_listens, require

NEEDS = {'default-jre-headless': 'java'}
BUILT = {'DiSNI': 'disni'}
# A pair of classes, their options, and what the client says if it has received what the server has sent.
PAIRS = (
    ('examples.SendRecv', (), 'Hello from the server'),
    ('examples.Read', (), 'This is a RDMA/read on stag'),
    ('examples.Verbs', (), 'read memory from server'),
    ('benchmarks.Read', ('-s', '65536', '-k', '1000'), 'latency'),
)


def pair(name, options, said, lab, seconds):
    sides = both(lab, *(['disni', name + end, '-a', SERVER, *options] for end in ('Server', 'Client')), cm_listens(lab), seconds)
    # Java writes characters of 16 bits into the buffer.
    require(said in sides[1].text().replace('\0', ''), f'the client does not say {said!r}', *sides)


ROWS = [Row(f'disni {name}', NEEDS, functools.partial(pair, name, options, said), daily=False, built=BUILT) for name, options, said in PAIRS]
