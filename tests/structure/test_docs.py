#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_docs.py UROCED: docs.py finds what is wrong in a small tree of documents."""

import os
import subprocess
import sys
import tempfile
import unittest

CHECK = os.path.join(os.path.dirname(os.path.realpath(__file__)), 'docs.py')
UROCED = sys.argv.pop(1)
GOOD = '```\n[port uroce0]\nethdev = net_af_packet0\n```\n'
SVG = '<svg xmlns="http://www.w3.org/2000/svg"><title>t</title></svg>'


class Documents(unittest.TestCase):
    def said(self, **files):
        """@return what docs.py says of a tree with these files; their names are in short"""
        names = {'readme': 'README.md', 'index': 'docs/README.md', 'build': 'docs/meson.build', 'page': 'docs/page.md',
                 'picture': 'docs/pictures/a.svg'}
        content = {'readme': GOOD, 'index': '(page.md)', 'build': "'README.md' 'page.md'", 'page': '# A page\n', 'picture': SVG, **files}
        with tempfile.TemporaryDirectory() as root:
            for name, text in content.items():
                path = os.path.join(root, names[name])
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, 'w', encoding='utf-8') as f:
                    f.write(text)
            done = subprocess.run([CHECK, root, UROCED], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
            self.assertEqual(done.returncode, 1 if done.stdout.strip() else 0)
            return done.stdout.strip()

    def test_nothing_is_said_of_good_documents(self):
        self.assertEqual(self.said(readme=GOOD + '[a](docs/page.md#a-page) [b](https://example.org/x) `[c](nothing)`\n'), '')

    def test_links(self):
        self.assertEqual(self.said(page='[a](nothing.md)'), 'docs/page.md: the link nothing.md leads to no file')
        self.assertEqual(self.said(readme=GOOD + '[a](docs/page.md#b)'), 'README.md: the link docs/page.md#b: page.md has no such heading')

    def test_configurations(self):
        said = self.said(readme='```\n[port uroce0]\nethdev = a\nmtuu = 1500\n```\n')
        self.assertIn('README.md: line 2: uroced does not take this configuration', said)
        self.assertIn('did you mean mtu?', said)

    def test_pages_that_nobody_finds(self):
        self.assertEqual(self.said(index=''), 'docs/README.md does not name page.md')
        self.assertEqual(self.said(build="'README.md'"), 'docs/meson.build does not install page.md')

    def test_pictures(self):
        for text, wrong in ((SVG.replace('</title>', ''), 'not well-formed'), (SVG.replace('title', 'desc'), 'it has no title'),
                            (SVG.replace('</svg>', '<script/></svg>'), 'it has a script'),
                            (SVG.replace('</svg>', '<image href="http://a/b.png"/></svg>'), 'it needs http://a/b.png')):
            self.assertIn(wrong, self.said(picture=text))


if __name__ == '__main__':
    unittest.main(verbosity=2)
