# SPDX-License-Identifier: BSD-3-Clause
"""scripts/uroce-lab: several uroce hosts on one machine.

state.py   where a lab keeps its files, what it remembers, which processes are its own
wires.py   network namespaces, veth pairs, the bridge, and what EAL and the daemon need to know of them
daemon.py  configuration, command line, start and stop of one host's uroced
telemetry.py  questions to a running uroced
places.py  where uroced and the other programs are
lab.py     up, run, status, down: puts the others together
impair.py  impair
history.py samples of what QPs do, over time
report.py  report: these samples as plots
plots.py   plots as SVG, and pages of them
progress.py  how far long work is, on a terminal
"""

import os
import sys


class LabError(Exception):
    """An error for the user; its text says what was wrong and what would be right."""


def quietly(main):
    """Run main(). Whoever reads what it prints may stop at any time (`| head`): that is no error. @return main()'s, or 0"""
    try:
        try:
            return main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
