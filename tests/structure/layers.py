#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whether the source tree still has the structure that docs/design.md describes.

  layers.py SOURCE-ROOT BUILD-FOLDER

Checked are the production files: lib, app and drivers.

  includes   A folder of lib includes only the folders that FOLDERS names, and of those only the public headers. Inside a folder a part (a
             sub-folder) includes only parts below it (PARTS).
  calls      The same for functions and variables, whatever header declares them, by the symbols of the object files (nm). A call through a
             pointer is not seen: a table of functions or a callback is how a lower part calls a higher one.
  cycles     No more than MOST_IN_A_CYCLE files of a folder form a cycle, in which each file calls another and is called by another.
  length     No file has more than MOST_LINES lines.

Each violation is one line that says what is wrong and what would be right; status 1 if there is one.
"""

import collections
import json
import os
import re
import subprocess
import sys

MOST_LINES = 600
MOST_IN_A_CYCLE = 8

# From the bottom. Folder: what it may use, and its headers that others may include ('*': all that aren't named *_priv.h).
FOLDERS = {
    'lib/base': ('', '*'),
    'lib/ring': ('base', '*'),
    'lib/wire': ('base', 'wire.h header_cache.h'),
    'lib/mem': ('base ring', 'mem.h mw.h job.h copier.h'),
    'drivers/net/impair': ('base wire', '*'),
    'lib/transport': ('base ring wire mem', 'transport.h move.h path/changes.h diag/diag.h record/record.h journal/journal.h'),
    'lib/cm': ('base wire', 'cm.h'),
    'lib/net': ('base ring wire', 'net.h port/track.h'),
    'lib/engine': ('base ring wire mem transport net', 'engine.h'),
    'lib/control': ('base ring wire mem drivers/net/impair transport cm net engine',
                    'control.h handover.h cma/gsi.h config/config.h core/checkpoint.h core/opener.h core/stream.h observe/capture.h observe/inspect.h observe/sysfs.h'),
    'lib/verbs': ('base ring', 'connection.h device.h'),
    'lib/rdmacm': ('base ring verbs', ''),
    'lib/rsocket': ('base ring verbs rdmacm', ''),
    'app/common': ('base ring', '*'),
    'lib/uroce': ('base ring wire mem drivers/net/impair transport cm net engine control verbs', '*'),
}
# A module of its own, whose functions take the place of libc's.
ALONE = 'lib/verbs/sysfs_paths.c'
# Parts of a folder from the bottom. Parts in one string don't use each other. '.' are the files beside the parts, but for net.h and net_priv.h of
# lib/net and the like: these have the struct that is made of the structs of all parts.
PARTS = {
    'lib/transport': ['core', 'cc', 'path', 'req', 'resp', 'svc', 'diag', 'record', 'journal', '.'],
    'lib/control': ['config', 'core', 'memory', 'obj', 'cma', 'observe', '.'],
    'lib/net': ['.', 'kernel group', 'neigh', 'port'],
}
# What is not right yet. These tables must become empty.
UNORDERED = set()                                     # PARTS doesn't hold
PRIVATE = set()
CYCLES = {}
LONG = {}


def folder_of(path):
    """The folder of FOLDERS or app/ that a file belongs to, or None"""
    words = path.split('/')
    return next(('/'.join(words[:n]) for n in (3, 2) if '/'.join(words[:n]) in FOLDERS), '/'.join(words[:2]) if words[0] == 'app' else None)


def part_of(path):
    rest = os.path.relpath(path, folder_of(path))
    return rest.split('/')[0] if '/' in rest else '.'


def full(names):
    return [name if '/' in name else 'lib/' + name for name in names.split()]


def public(path):
    headers = FOLDERS[folder_of(path)][1] if folder_of(path) in FOLDERS else ''
    inner = os.path.relpath(path, folder_of(path))
    return not path.endswith('_priv.h') and (headers == '*' or inner in headers.split())


def why_not(source, target):
    """Why `source` may not use `target`, or None"""
    mine, other = folder_of(source), folder_of(target)
    if mine != other:
        allowed = full(FOLDERS[mine][0]) if mine in FOLDERS else [*FOLDERS]
        return None if other in allowed else f'{mine} may use only {", ".join(allowed) or "itself"}'
    rows = [row.split() for row in PARTS.get(mine, [])] if mine not in UNORDERED else []
    a, b = part_of(source), part_of(target)
    if not rows or a == b or re.fullmatch(mine + '/' + os.path.basename(mine) + r'(_priv)?\.h', source if a == '.' else target):
        return None
    for part, where in ((a, source), (b, target)):
        if not any(part in row for row in rows):
            return f'{where} is in no part of {mine} that PARTS of {os.path.basename(__file__)} knows'
    below = [part for row in rows[:next(i for i, row in enumerate(rows) if a in row)] for part in row]
    return None if b in below else f'{a} may use only {", ".join(below) or "no other part"}'


def files(root):
    for top in ('lib', 'app', 'drivers'):
        for folder, _, names in sorted(os.walk(os.path.join(root, top))):
            yield from (os.path.relpath(os.path.join(folder, name), root) for name in sorted(names) if name.endswith(('.c', '.h')))


def check_files(root):
    """Violations of length and includes"""
    for source in files(root):
        if folder_of(source) is None:
            yield f'{source} is in a folder that FOLDERS of {os.path.basename(__file__)} lacks: say there what it may use'
            continue
        with open(os.path.join(root, source), encoding='utf-8') as f:
            text = f.read()
        lines = text.count('\n')
        if lines > LONG.get(source, MOST_LINES):
            yield f'{source} has {lines} lines: at most {MOST_LINES}; split it by what its parts do'
        for name in re.findall(r'^\s*#\s*include "([^"]+)"', text, re.MULTILINE):
            places = [os.path.normpath(os.path.join(place, name)) for place in (os.path.dirname(source), 'lib')]
            target = next((path for path in places if os.path.exists(os.path.join(root, path))), None)
            if target is None or folder_of(target) is None:
                continue
            why = why_not(source, target)
            if why is None and folder_of(source) != folder_of(target) and not public(target) and (source, target) not in PRIVATE:
                others = FOLDERS.get(folder_of(target), ('', ''))[1]
                why = f'it is private; of {folder_of(target)} others may include only {others or "nothing"}'
            if why:
                yield f'{source} includes {name}: {why}'


def symbols(root, build):
    """{file: names it defines}, {file: names it uses}, from the object files"""
    defines, uses = collections.defaultdict(set), collections.defaultdict(set)
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as f:
        commands = json.load(f)
    sources = {}
    for command in commands:
        source = os.path.relpath(os.path.join(command['directory'], command['file']), os.path.realpath(root))
        if folder_of(source) is None or source == ALONE or command['output'].startswith('tests/'):
            continue
        path = os.path.join(command['directory'], command['output'])
        if not os.path.exists(path):
            sys.exit(f'{path} is not there: build everything first (ninja -C {build})')
        sources[path] = source
    listed = subprocess.run(['nm', '--print-file-name', *sources], stdout=subprocess.PIPE, text=True, check=True).stdout
    for path, kind, name in re.findall(r'^(.*):[0-9a-f ]* (\w) (\S+)$', listed, re.MULTILINE):
        if kind in 'TDBRVWCG':
            defines[sources[path]].add(name)
        elif kind in 'Uvw':
            uses[sources[path]].add(name)
    return defines, uses


def call_graph(defines, uses):
    """{file: {file that it uses: names}}"""
    where = collections.defaultdict(list)
    for source, names in defines.items():
        for name in names:
            where[name].append(source)
    graph = collections.defaultdict(lambda: collections.defaultdict(set))
    for source, names in uses.items():
        for name in names:
            # Programs that are never linked together may have functions of the same name: the nearest is meant.
            near = [target for target in where[name] if folder_of(target) == folder_of(source)]
            for target in near or [target for target in where[name] if not target.startswith('app/')]:
                if target != source:
                    graph[source][target].add(name)
    return graph


def cycles(graph):
    """The strongly connected components with more than one file (Tarjan)"""
    order, low, stack, found = {}, {}, [], []

    def visit(file):
        order[file] = low[file] = len(order)
        stack.append(file)
        for target in graph.get(file, ()):
            if target not in order:
                visit(target)
            if target in stack:
                low[file] = min(low[file], low[target])
        if low[file] == order[file]:
            found.append(stack[stack.index(file):])
            del stack[stack.index(file):]

    for file in list(graph):
        if file not in order:
            visit(file)
    return [sorted(component) for component in found if len(component) > 1]


def check_calls(graph):
    """Violations of calls and cycles"""
    for source in sorted(graph):
        for target, names in sorted(graph[source].items()):
            why = why_not(source, target)
            if why:
                yield f'{source} uses {", ".join(sorted(names))} of {target}: {why}'
    for folder in sorted({folder_of(file) for file in graph}):
        inside = {file: [t for t in graph[file] if folder_of(t) == folder] for file in sorted(graph) if folder_of(file) == folder}
        for component in cycles(inside):
            if len(component) > CYCLES.get(folder, MOST_IN_A_CYCLE):
                calls = '; '.join(f'{os.path.relpath(a, folder)} uses {", ".join(sorted(graph[a][b]))} of {os.path.relpath(b, folder)}'
                                  for a in component for b in sorted(graph[a]) if b in component)
                yield f'{folder}: {len(component)} files call each other in a cycle, at most {MOST_IN_A_CYCLE} may: {calls}'


def main():
    if len(sys.argv) != 3:
        sys.exit(f'usage: {os.path.basename(__file__)} SOURCE-ROOT BUILD-FOLDER')
    root, build = sys.argv[1:]
    violations = [*check_files(root), *check_calls(call_graph(*symbols(root, build)))]
    print(*violations, sep='\n', end='\n' if violations else '')
    return 1 if violations else 0


if __name__ == '__main__':
    sys.exit(main())
