#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What victims get beside attackers: each attacker is a program of another user (nobody) that takes what it can get of the engine or of the control thread, and each victim
does one honest thing (matrix_victim). Both use host h1 of a lab, so they share its engine, and run on one CPU, which the engine doesn't use.

  test_matrix.py                   a few cells, with limits that also hold on a machine that has other things to do
  test_matrix.py --all [--ms N]    every attacker and every victim, N milliseconds (400) for each cell; prints two tables. For a quiet machine
  test_matrix.py --cells ATTACKER:VICTIM,...
  test_matrix.py --list            the attackers and victims

Share: the victim's operations per second beside the attacker, as part of its fair share, which is half of what it does alone, before and after. A share of 2 is
what it does alone. p99: the 99th percentile of the time that its operations take, as a multiple of the same beside an honest busy program of
another user, which writes 32 KiB messages.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, '../..'), os.path.join(HERE, '../../../../scripts')]

from labs import AS_NOBODY, SKIPPED, Skip, lab_up, not_as_others  # noqa: E402
from uroce_lab import LabError, daemon, progress  # noqa: E402

NAME = f'w{os.getpid()}'
HOSTILE = os.path.join(daemon.build_dir(), 'tests/verbs/hostile')
ATTACK, VICTIM = (os.path.join(HOSTILE, 'matrix/matrix_' + name) for name in ('attack', 'victim'))
VICTIMS = ['write-bw', 'read-bw', 'send-bw', 'write-rate', 'send-rate', 'send-lat', 'atomics', 'ud-rate', 'connect']
# Attackers that are programs of their own: the folder above.
MORE = {
    'windows': ['windows', '1024'],
    'slow-memory': ['slow', 'never'],
    'slow-memory-changes': ['slow', 'mprotect'],
    'mappings-change': ['maps', '8'],
    'unread-events': ['events', 'cq'],
    'mute-connections': ['shares', 'mute'],
    'all-qps': ['shares', 'qp'],
}
HONEST = 'honest'
ITSELF = 'itself'                       # each victim beside a copy of itself: both get the same, so the rest is what it costs to share a CPU
COPY_OF = 'copy of '                    # some victims and attackers have the same name
BEGIN_SECONDS = 10
ROW_TRIES, STEADY = 3, 1.4              # what victims do alone before and after a row differs by less, but for a third of them
WANTED_SHARE, WANTED_P99 = 0.8, 2.0     # of the project, on a quiet machine
# Of the daily run: what other load on the machine doesn't reach. Without shares an attacker leaves a victim a tenth.
SMALLEST_SHARE = 0.35
DAILY = ['write-small:write-bw', 'atomics:write-rate', 'dead-peers:send-bw', 'bad-rkey:write-bw', 'windows:write-rate', 'qp-churn:connect', 'mappings-change:connect']
# Its three threads have the victim's CPU, too. If the control thread waits for them, it is 0.01.
SMALLEST_OF = {'mappings-change:connect': 0.1}
DAILY_ROUNDS, MS = 2, 400


class Matrix:
    """A lab, and what victims get there."""

    def __init__(self, lab, ms):
        self.lab, self.ms = lab, ms
        # The engine has the first CPU to itself, all programs share the last. Else the kernel's scheduler decides what an engine gets.
        self.run = ['taskset', '-c', str(max(os.sched_getaffinity(0))), lab.data['programs']['uroce-run'], '--socket', lab.hosts['h1']['socket']]
        path = lab.hosts['h1']['socket']
        os.chmod(path, 0o666)
        while (path := os.path.dirname(path)).startswith(lab.data['dir']):
            os.chmod(path, 0o755)

    def victim(self, kinds):
        """@return {kind: (operations per second, p99 in us)}"""
        done = subprocess.run([*self.run, VICTIM, str(self.ms), *kinds], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=30 + len(kinds) * self.ms / 100, check=False)
        found = {words[0]: (float(words[1]), float(words[2])) for words in map(str.split, done.stdout.splitlines())
                 if len(words) == 3 and words[0] in kinds}
        if done.returncode != 0 or len(found) != len(kinds):
            raise LabError(f'the victim ended with status {done.returncode}:\n{done.stdout}')
        return found

    @contextlib.contextmanager
    def attacker(self, name):
        """Runs as long as the block. Yields false if this machine lacks what it needs."""
        quiet = name == HONEST or name.startswith(COPY_OF)      # it doesn't say when it begins
        program = [VICTIM, '1000000', 'write-bw' if name == HONEST else name.removeprefix(COPY_OF)] if quiet else \
            [os.path.join(HOSTILE, 'hostile_' + MORE[name][0]), *MORE[name][1:]] if name in MORE else [ATTACK, name]
        with tempfile.TemporaryFile('w+', encoding='utf-8') as said:
            child = subprocess.Popen([*AS_NOBODY, *self.run, *program], stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True)
            try:
                end = time.monotonic() + BEGIN_SECONDS
                text = ''
                while 'attacking' not in text and child.poll() is None and time.monotonic() < end:
                    time.sleep(0.05)
                    text = os.pread(said.fileno(), 1 << 16, 0).decode(errors='replace')
                    if quiet and time.monotonic() > end - BEGIN_SECONDS + 1:
                        break
                if child.poll() not in (None, SKIPPED) or (not quiet and 'attacking' not in text and child.poll() is None):
                    raise LabError(f'{name} did not begin:\n{text}')
                yield child.poll() is None
                if child.poll() not in (None, SKIPPED):
                    raise LabError(f'{name} gave up:\n{os.pread(said.fileno(), 1 << 16, 0).decode(errors="replace")}')
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        if not self.lab.whole():
            raise LabError('a daemon ended:\n' + self.lab.logs())


def attackers():
    """All of them, in the order of the table."""
    return subprocess.run([ATTACK], stdout=subprocess.PIPE, text=True, check=True).stdout.split() + list(MORE)


def table(head, rows):
    print('| attacker | ' + ' | '.join(head) + ' |\n' + '|---' * (1 + len(head)) + '|')
    for name, cells in rows:
        print(f'| {name} | ' + ' | '.join(cells) + ' |')


def row(matrix, name, before):
    """Measure the victims alone, if BEFORE isn't that already, beside an attacker, and alone again. Machines that others use as well are sometimes twice as fast as
    a minute before: then what they did alone tells nothing, and it is done again.
    @return what they did (before, beside, after); None: this machine lacks what the attacker needs"""
    for _ in range(ROW_TRIES):
        first, before = before or matrix.victim(VICTIMS), None
        with matrix.attacker(name) as there:
            if not there:
                return None
            beside = matrix.victim(VICTIMS)
        after = matrix.victim(VICTIMS)
        if sum(not 1 / STEADY < after[kind][0] / first[kind][0] < STEADY for kind in VICTIMS) <= len(VICTIMS) // 3:
            break
    return first, beside, after


def row_itself(matrix, before):
    """As row(), but each victim is beside a copy of itself."""
    first, beside = before or matrix.victim(VICTIMS), {}
    for kind in VICTIMS:
        with matrix.attacker(COPY_OF + kind):
            beside.update(matrix.victim([kind]))
    return first, beside, matrix.victim(VICTIMS)


def whole(matrix):
    """Every cell. @return cells that miss what is wanted."""
    rows, alone = {}, None
    names = [HONEST, ITSELF, *attackers()]
    with progress.Progress(len(names)) as shown:
        for name in names:
            shown.step(name)
            try:
                found = row_itself(matrix, alone) if name == ITSELF else row(matrix, name, alone)
                if found is not None:
                    rows[name] = found
                    alone = found[2]
            except (LabError, subprocess.TimeoutExpired) as e:
                alone = None
                shown.clear()
                print(f'{name}: {e}', file=sys.stderr, flush=True)
    if HONEST not in rows:
        raise LabError(f'without {HONEST} there is nothing to compare with')
    honest, beside = rows[HONEST][1], {name: found[1] for name, found in rows.items()}
    best = {kind: max(one[kind][0] for found in rows.values() for one in (found[0], found[2])) for kind in VICTIMS}
    shares = {(name, kind): middle[kind][0] / ((first[kind][0] + last[kind][0]) / 4)
              for name, (first, middle, last) in rows.items() for kind in VICTIMS}
    p99 = {(name, kind): found[kind][1] / max(honest[kind][1], 1) for name, found in beside.items() for kind in VICTIMS}
    print('Alone, operations per second: ' + ', '.join(f'{kind} {best[kind]:.0f}' for kind in VICTIMS))
    print('p99 beside an honest program, us: ' + ', '.join(f'{kind} {honest[kind][1]:.0f}' for kind in VICTIMS) + '\n\nshares:\n')
    table(VICTIMS, [(name, [f'{shares[name, kind]:.2f}' for kind in VICTIMS]) for name in beside])
    print('\np99:\n')
    table(VICTIMS, [(name, [f'{p99[name, kind]:.1f}' for kind in VICTIMS]) for name in beside])
    fellows = (HONEST, ITSELF)
    low = sum(share < WANTED_SHARE for (name, _), share in shares.items() if name not in fellows)
    of_itself = sum(share < WANTED_SHARE * shares.get((ITSELF, kind), 1) for (name, kind), share in shares.items() if name not in fellows)
    late = sum(times > WANTED_P99 for times in p99.values())
    cells = sum(name not in fellows for name, _ in shares)
    print(f'\n{cells} cells, {low} with a share below {WANTED_SHARE}, {of_itself} below {WANTED_SHARE} of what the victim gets beside a copy of itself, '
          f'{late} with a p99 above {WANTED_P99} times the honest one')


def some(matrix, cells):
    """@return whether all have what they must have on any machine. The best of the rounds counts: other load makes single ones slower."""
    good = True
    for cell in cells:
        attacker, kind = cell.split(':')
        alone, beside = [], []
        for _ in range(DAILY_ROUNDS):
            alone.append(matrix.victim([kind])[kind][0])
            with matrix.attacker(attacker):
                beside.append(matrix.victim([kind])[kind][0])
        share = max(beside) / (max(alone) / 2)
        smallest = SMALLEST_OF.get(cell, SMALLEST_SHARE)
        good &= share >= smallest
        print(f'{kind} beside {attacker}: {share:.2f} of its fair share' + ('' if share >= smallest else f': less than {smallest}'), flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--all', action='store_true')
    parser.add_argument('--cells', metavar='ATTACKER:VICTIM,...')
    parser.add_argument('--ms', type=int, default=MS)
    parser.add_argument('--list', action='store_true')
    options = parser.parse_args()
    if options.list:
        print(*attackers(), '', *VICTIMS, sep='\n')
        return 0
    cells = options.cells.split(',') if options.cells else DAILY
    for cell in cells:
        attacker, _, kind = cell.partition(':')
        if attacker not in [HONEST, *attackers()] or kind not in VICTIMS:
            parser.error(f'{cell}: --list has the attackers and victims')
    if why := not_as_others():
        print(f'skipped: {why}')
        return SKIPPED
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if len(os.sched_getaffinity(0)) < 2:
            raise Skip('one CPU for the engine and one for the programs are needed')
        with lab_up(name=NAME) as lab:
            matrix = Matrix(lab, options.ms)
            if options.all:
                whole(matrix)
                return 0
            return 0 if some(matrix, cells) else 1
    except Skip as e:
        print(f'skipped: {e}')
        return SKIPPED
    except LabError as e:
        print(e)
        return 1


if __name__ == '__main__':
    sys.exit(main())
