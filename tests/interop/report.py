# SPDX-License-Identifier: BSD-3-Clause
"""What came out: told at the end, and as the tables of docs/interop.md."""

import collections

import cells

MARK_BEGIN = '<!-- the command writes what follows -->\n'
MARK_END = '<!-- up to here -->\n'


class Result:
    """What became of everything that was tried."""

    def __init__(self, judgement, cm_judgement):
        self.judge = judgement
        self.cm = cm_judgement
        self.cells = collections.OrderedDict()      # (stage, kind) -> {requester: [good, all]}
        self.programs = collections.OrderedDict()   # (stage, program and options) -> {server: good}
        self.failures = []
        self.tried = 0

    def cell(self, stage, cell, problem):
        self.tried += 1
        sides = self.cells.setdefault((stage.name, cell.kind), {name: [0, 0] for name in cells.BOTH})
        sides[cell.requester][0] += not problem
        sides[cell.requester][1] += 1
        if problem:
            self.failures.append(f'{stage.name}: {cell.name}: {problem}')

    def program(self, stage, program, options, family, server, problem):
        self.tried += 1
        self.programs.setdefault((stage.name, f'{program} {options}', family), {})[server] = not problem
        if problem:
            self.failures.append(f'{stage.name}: {program} {options}, server {server}: {problem.splitlines()[0]}')

    def broken(self, text):
        print(f'FAILED {text}', flush=True)
        self.failures.append(text)

    def conclude(self):
        """@return the exit status"""
        problems = self.judge.problems() + self.cm.problems() if self.tried else []
        for problem in problems:
            print(f'FAILED on the wire: {problem}')
        print(f'{self.tried} tried, {len(self.failures)} failed; {self.judge.packets[0]} packets of uroce\'s and '
              f'{self.judge.packets[1]} of Soft-RoCE\'s judged, {len(problems)} problems')
        return 1 if self.failures or problems or not self.tried else 0

    def tables(self, kernel):
        stages = list(collections.OrderedDict.fromkeys(stage for stage, _ in self.cells))
        kinds = list(collections.OrderedDict.fromkeys(kind for _, kind in self.cells))
        yield f'Linux {kernel}; {self.tried} tried, {len(self.failures)} failed.\n\n'
        yield '| what | ' + ' | '.join(f'{stage}: uroce asks | Soft-RoCE asks' for stage in stages) + ' |\n'
        yield '|---|' + '---|---|' * len(stages) + '\n'
        for kind in kinds:
            row = [score(self.cells.get((stage, kind)), side) for stage in stages for side in cells.BOTH]
            yield f'| `{kind}` | ' + ' | '.join(row) + ' |\n'
        yield '\n| program, on af_packet | IP | uroce serves | Soft-RoCE serves |\n|---|---|---|---|\n'
        for (_, name, family), sides in self.programs.items():
            words = ['ok' if sides.get(side) else 'FAILED' for side in cells.BOTH]
            yield f'| `{name}` | {family} | ' + ' | '.join(words) + ' |\n'
        ours, theirs = self.judge.packets[0], self.judge.packets[1]
        yield f'\n{ours} packets of uroce\'s and {theirs} of Soft-RoCE\'s were judged; ' \
              f'{len(self.judge.problems())} problems.\n\n| field | uroce | Soft-RoCE | |\n|---|---|---|---|\n'
        for row in self.judge.table():
            yield '| ' + ' | '.join(row) + ' |\n'
        yield '\n| MAD | uroce\'s | Soft-RoCE\'s | fields compared | uroce sends what Linux doesn\'t |\n|---|---|---|---|---|\n'
        for row in self.cm.table():
            yield '| ' + ' | '.join(row) + ' |\n'

    def write(self, path, kernel):
        with open(path, encoding='utf-8') as f:
            head, _, rest = f.read().partition(MARK_BEGIN)
        _, _, tail = rest.partition(MARK_END)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(head + MARK_BEGIN + ''.join(self.tables(kernel)) + MARK_END + tail)


def score(sides, side):
    if not sides or not sides[side][1]:
        return ''
    good, total = sides[side]
    return f'{total}' if good == total else f'**{good} of {total}**'
