# SPDX-License-Identifier: BSD-3-Clause
"""The table of docs/ports.md: a row for each NIC, made of what a run has found out."""

import os
import re

DOCUMENT = os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../docs/ports.md')
BEGIN, END = '<!-- begin: written by tests/nic/run --all --write -->', '<!-- end -->'
NOT_TRIED = 'not tried'
# What a run tells about a NIC, and the head of its column.
COLUMNS = {'device': "QEMU's device", 'pmd': "DPDK's driver", 'mtu': 'RoCE MTU', 'queues': 'engines', 'interrupts': 'RX interrupts', 'link': 'link events',
           'removal': 'removal', 'uroce': 'with another uroce', 'soft_roce': 'with Soft-RoCE', 'noiommu': 'without IOMMU',
           'two': 'between two machines'}


class NoTable(Exception):
    """docs/ports.md has no table, or a wrong one."""


def pieces():
    """@return the document before the table's rows, the rows, and what follows"""
    with open(DOCUMENT, encoding='utf-8') as f:
        text = f.read()
    if text.count(BEGIN) != 1 or END not in text[text.index(BEGIN):]:
        raise NoTable(f'{DOCUMENT} does not have {BEGIN} and {END}')
    before, _, rest = text.partition(BEGIN)
    table, _, after = rest.partition(END)
    return before, table, after


def line(cells):
    return '| ' + ' | '.join(cells) + ' |'


def read():
    """@return {NIC: {column: text}} of the document"""
    lines = [[cell.strip() for cell in text.strip().strip('|').split('|')] for text in pieces()[1].strip().splitlines()]
    if len(lines) < 2 or lines[0] != list(COLUMNS.values()) or not all(re.fullmatch('-+', cell) for cell in lines[1]):
        raise NoTable(f'the table of {DOCUMENT} does not have the columns {", ".join(COLUMNS.values())}')
    rows = {}
    for cells in lines[2:]:
        if len(cells) != len(COLUMNS) or cells[0] in rows:
            raise NoTable(f'a row of {DOCUMENT} does not have {len(COLUMNS)} cells, or is there twice: {cells}')
        rows[cells[0]] = dict(zip(COLUMNS, cells))
    return rows


def write(found, names):
    """
    @param found  {NIC: {column: text}}; what a run has not found out stays as it is
    @param names  of all NICs, in their order
    """
    before, _, after = pieces()
    try:
        rows = read()
    except NoTable:
        rows = {}
    lines = [line(COLUMNS.values()), line(['---'] * len(COLUMNS))]
    for name in names:
        cells = {column: NOT_TRIED for column in COLUMNS} | rows.get(name, {}) | {'device': name} | found.get(name, {})
        lines.append(line(cells[column] for column in COLUMNS))
    with open(DOCUMENT, 'w', encoding='utf-8') as f:
        f.write(before + BEGIN + '\n' + '\n'.join(lines) + '\n' + END + after)


def differences(found):
    """@return what the document says otherwise than a run has found out"""
    try:
        rows = read()
    except NoTable as e:
        return [str(e)]
    problems = []
    for name, cells in found.items():
        for column, text in cells.items():
            said = rows.get(name, {}).get(column)
            if said != text:
                problems.append(f'docs/ports.md, {name}, {COLUMNS[column]}: the document has {said!r}, the run found {text!r}')
    return problems


def check(names):
    """@return what is wrong with the table, without a run"""
    try:
        rows = read()
    except NoTable as e:
        return [str(e)]
    problems = [f'docs/ports.md has no row for {name}' for name in names if name not in rows]
    problems += [f'docs/ports.md has a row for {name}, which tests/nic/nics.py does not have' for name in rows if name not in names]
    problems += [f'docs/ports.md, {name}: an empty cell' for name, cells in rows.items() if not all(cells.values())]
    return problems
