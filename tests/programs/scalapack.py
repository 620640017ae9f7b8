# SPDX-License-Identifier: BSD-3-Clause
"""ScaLAPACK's own tests on four processes: matrices that are spread over them are factored or solved, and the residuals checked.

Not xdllt: it hangs every few runs, over TCP as well (docs/programs.md).
"""

import functools
import glob
import os
import re

import mpi
from rows import Row, require

FOLDER = '/usr/lib/*/scalapack/openmpi-tests'


def passes(program, lab, seconds):
    path, = glob.glob(os.path.join(FOLDER, program))
    said = mpi.openmpi(lab, seconds, [path], 2, folder=os.path.dirname(path))
    counts = {how: int(number) for number, how in re.findall(r'^ *(\d+) tests completed and (passed|failed)', said, re.M)}
    require(counts.get('passed', 0) > 0 and counts.get('failed') == 0, said)


ROWS = [Row(f'scalapack {program}', {**mpi.OPENMPI, 'scalapack-mpi-test': os.path.join(FOLDER, program)},
            functools.partial(passes, program), seconds=seconds, daily=False)
        for program, seconds in (('xdinv', 120), ('xdqr', 120), ('xdlu', 240), ('xcsep', 240))]
