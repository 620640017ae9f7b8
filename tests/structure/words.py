#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each word that threads or processes share is in a table that says which order its loads and stores have, and why.

  words.py ROOT

Words are what is declared with _Atomic. Those of lib/ring have their table in lib/ring/ring.h, all others theirs in docs/internals/ordering.md. A row
whose word there isn't any more is an error, too.
"""

import pathlib
import re
import sys

TABLE, DOCUMENT = 'lib/ring/ring.h', 'docs/internals/ordering.md'
FOLDERS = ('lib', 'app/uroced', 'drivers')
RING = 'lib/ring/'
# A member, a static variable, or a line of several: type, then names, perhaps with a value. Not what points to such a word elsewhere.
DECLARED = re.compile(r'^\t*(?:(?:static|const|_Alignas\(\w+\)) )*(?:(?:struct )?\w+ \*)?_Atomic\b[^;{}]*;', re.MULTILINE)
TYPE = re.compile(r'^_Atomic(?:\((?:[^()]|\([^()]*\))*\)|\s+(?:struct |unsigned )?\w+(?= [*\w]))?\s*')


def declared(text):
    """@return the names that are declared with _Atomic in a file"""
    names = set()
    for found in DECLARED.finditer(re.sub(r'/\*.*?\*/', '', text, flags=re.DOTALL)):
        line = re.sub(r'__attribute__\(\(.*?\)\)+', '', found[0].rstrip(';'))
        line = TYPE.sub('', line[line.index('_Atomic'):]).partition('=')[0]
        for name in line.split(','):
            word = re.match(r'(\w+)\s*(?:\[[^]]*\])*$', name.strip())
            if word:
                names.add(word[1])
    return names


def in_header(text):
    """@return the words of the table in ring.h"""
    names = set()
    for line in re.findall(r'^ \*   (ring_\w+\.[\w, ]+?)(?::|  )', text, re.MULTILINE):
        names.update(word.strip() for word in line.partition('.')[2].split(','))
    return names


def in_document(text):
    """@return {file: words} of the document's tables"""
    rows = {}
    for words, path in re.findall(r'^\| (`[^|]*) \| `([^`|]*)` \|', text, re.MULTILINE):
        rows.setdefault(path, set()).update(re.findall(r'`(\w+)`', words))
    return rows


def main():
    root = pathlib.Path(sys.argv[1])
    there = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob('*.[ch]')):
            if names := declared(path.read_text(encoding='utf-8')):
                there[str(path.relative_to(root))] = names
    ring = set().union(*(names for path, names in there.items() if path.startswith(RING)))
    others = {path: names for path, names in there.items() if not path.startswith(RING)}
    header = in_header((root / TABLE).read_text(encoding='utf-8'))
    rows = in_document((root / DOCUMENT).read_text(encoding='utf-8'))
    problems = [f'{TABLE}: its table has no {name}' for name in sorted(ring - header)]
    problems += [f'{TABLE}: its table has {name}, which is not declared' for name in sorted(header - ring)]
    for path in sorted(set(others) | set(rows)):
        problems += [f'{DOCUMENT} has no {name} of {path}' for name in sorted(others.get(path, set()) - rows.get(path, set()))]
        problems += [f'{DOCUMENT} has {name} of {path}, which is not declared there' for name in sorted(rows.get(path, set()) - others.get(path, set()))]
    for problem in problems:
        print(problem)
    print(f'{len(ring)} words of programs and daemon, {sum(map(len, others.values()))} of threads')
    return 1 if problems or not ring or not others else 0


if __name__ == '__main__':
    sys.exit(main())
