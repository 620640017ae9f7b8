#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whether what the documents point to is there, and the configurations in them are right.

  docs.py SOURCE-ROOT UROCED

  links           A link in a Markdown file leads to a file of the tree, and its #anchor to a heading of that file.
  pages           Every page of docs/ is in docs/README.md, and docs/meson.build installs it.
  configurations  A block with a section [port ...] is a whole configuration: `uroced --check` takes it. So are the options of --set in a block.
  pictures        An SVG is well-formed, stands for itself (no scripts, nothing from elsewhere) and has a title for those who don't see it.

Each mistake is one line; status 1 if there is one.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

LINK = re.compile(r'\[[^\]]*\]\(([^)\s]+)\)')
FENCE = re.compile(r'^( *)```[^\n]*\n(.*?)^ *```', re.M | re.S)
HEADING = re.compile(r'^#+ +(.*?) *$', re.M)
SECTION = re.compile(r'^ *\[(daemon|port [^\]]+|share [^\]]+)\]', re.M)
SVG = '{http://www.w3.org/2000/svg}'


def read(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


def pages(root):
    found = glob.glob(os.path.join(root, '*.md')) + glob.glob(os.path.join(root, '*/**/*.md'), recursive=True)
    return sorted(path for path in found if not os.path.relpath(path, root).startswith('build'))


def without_blocks(text):
    return FENCE.sub('', text)


def anchors(text):
    """The anchors that GitHub makes of headings."""
    found = []
    for heading in HEADING.findall(without_blocks(text)):
        plain = re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', heading).replace('`', '').lower()
        anchor = re.sub(r'[^\w\- ]', '', plain).replace(' ', '-')
        same = sum(other == anchor or re.fullmatch(re.escape(anchor) + r'-\d+', other) is not None for other in found)
        found.append(f'{anchor}-{same}' if same else anchor)
    return found


def check_links(path, text):
    for target in LINK.findall(re.sub(r'`[^`\n]*`', '', without_blocks(text))):
        if re.match(r'[a-z]+:', target):
            continue
        file, _, anchor = target.partition('#')
        whole = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
        if not os.path.exists(whole):
            yield f'the link {target} leads to no file'
        elif anchor and whole.endswith('.md') and anchor not in anchors(read(whole)):
            yield f'the link {target}: {os.path.basename(whole)} has no such heading'


def configurations(text):
    """The blocks that are whole configurations, each with the number of its first line."""
    for block in FENCE.finditer(text):
        if SECTION.search(block[2]) and re.search(r'^ *\[port ', block[2], re.M):
            yield text.count('\n', 0, block.start()) + 2, re.sub(r'^' + block[1], '', block[2], flags=re.M)


def check_configuration(uroced, line, text):
    with tempfile.NamedTemporaryFile('w', suffix='.conf', encoding='utf-8') as f:
        f.write(text)
        f.flush()
        done = subprocess.run([uroced, '--', '--config', f.name, '--check'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    if done.returncode:
        yield f'line {line}: uroced does not take this configuration: {done.stdout.strip()}'


def check_index(root):
    index, build = read(os.path.join(root, 'docs/README.md')), read(os.path.join(root, 'docs/meson.build'))
    for path in pages(os.path.join(root, 'docs')):
        name = os.path.relpath(path, os.path.join(root, 'docs'))
        if name != 'README.md' and f'({name})' not in index:
            yield f'docs/README.md does not name {name}'
        if f"'{name}'" not in build:
            yield f'docs/meson.build does not install {name}'


def check_picture(path):
    try:
        tree = xml.etree.ElementTree.parse(path).getroot()
    except xml.etree.ElementTree.ParseError as e:
        yield f'not well-formed: {e}'
        return
    if tree.tag != SVG + 'svg':
        yield 'no SVG'
    if tree.find(f'{SVG}title') is None:
        yield 'it has no title'
    for element in tree.iter():
        if element.tag in (SVG + 'script', SVG + 'foreignObject'):
            yield f'it has a {element.tag.removeprefix(SVG)}'
        for key, value in element.attrib.items():
            if key.endswith('href') and not value.startswith(('#', 'data:')):
                yield f'it needs {value}'


def mistakes(root, uroced):
    number = 0
    for path in pages(root):
        text = read(path)
        found = list(check_links(path, text))
        for line, configuration in configurations(text):
            number += 1
            found += check_configuration(uroced, line, configuration)
        yield from (f'{os.path.relpath(path, root)}: {said}' for said in found)
    if not number:
        yield 'there is no configuration in any document: the pattern for them must be wrong'
    yield from check_index(root)
    for path in sorted(glob.glob(os.path.join(root, 'docs/pictures/*.svg'))):
        yield from (f'{os.path.relpath(path, root)}: {said}' for said in check_picture(path))


def main():
    found = list(mistakes(os.path.realpath(sys.argv[1]), sys.argv[2]))
    print(*found, sep='\n')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
