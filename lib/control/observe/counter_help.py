#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The rows of docs/counters.md as C initializers: { group, name, text }.

  lib/control/observe/counter_help.py docs/counters.md >counter_help.inc

A table of counters is one whose first heading is "counter". The section says which struct they are in; a section that isn't named
here has counters of the transport.
"""

import re
import sys

GROUPS = {'Load, per engine': 'engine', 'lib/net, per port': 'net', 'QP 1': 'gsi', 'The connection manager': 'cm',
          'Impairments': 'impair'}


def cells(line):
    return [cell.strip() for cell in line.strip().strip('|').split('|')]


def rows(text):
    """@return (group, name, what is said of it) for each counter, in the order of the document."""
    group, in_table = 'transport', False
    for line in text.splitlines():
        if line.startswith('## '):
            group, in_table = GROUPS.get(line[3:].strip(), 'transport'), False
        elif not line.startswith('|'):
            in_table = False
        elif cells(line)[0] == 'counter':
            in_table = True
        elif in_table and not line.startswith('|-'):
            names, said = cells(line)[:2]
            for name in re.findall(r'`(\w+)`', names):
                yield group, name, re.sub(r'[`*]', '', said)


def main():
    with open(sys.argv[1], encoding='utf-8') as f:
        text = f.read()
    for row in rows(text):
        print('{ ' + ', '.join('"' + cell.replace('\\', '\\\\').replace('"', '\\"') + '"' for cell in row) + ' },')


if __name__ == '__main__':
    main()
