#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A library that is missing or too old: the configuration stops with its name, the version that is needed, and Debian's package that has it.

  tests/install/test_libraries.py SOURCE_ROOT

The part of meson.build that says so is run with pkg-config files that are left out or have an old version, and each library that is used anywhere
must be in it.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
OF_OTHERS = {'threads': None, 'librdmacm': 'the tests', 'cmocka': 'the tests', 'libbsd-overlay': 'libbsd'}   # not in the table themselves
OLD = '0.0.1'


def table():
    """@return the text of the check, and {pkg-config's name: (oldest version, package)}"""
    text = (ROOT / 'meson.build').read_text(encoding='utf-8')
    check = re.search(r'^foreach name, wanted : \{\n(.*?)^endforeach\n', text, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\t'([^']+)': \['([^']+)', '([^']+)'\],$", check[1], re.MULTILINE)
    return check[0], {name: (version, package) for name, version, package in rows}


def used():
    """@return the names of all libraries that product code asks pkg-config for"""
    names = set()
    for path in ROOT.rglob('meson.build'):
        if path.relative_to(ROOT).parts[0] in ('app', 'drivers', 'examples', 'lib', 'meson.build'):
            names.update(re.findall(r"dependency\('([^']+)'", path.read_text(encoding='utf-8')))
    return names


def pc_file(name, version):
    return f'Name: {name}\nDescription: invented\nVersion: {version}\n'


class Libraries(unittest.TestCase):
    def setUp(self):
        self.check, self.rows = table()
        self.assertTrue(self.rows)

    def configure(self, versions):
        """Run the check where pkg-config knows these libraries. @return its status and output."""
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            (top / 'pc').mkdir()
            (top / 'meson.build').write_text(f"project('check', meson_version: '>= 1.0.0')\n{self.check}", encoding='utf-8')
            for name, version in versions.items():
                (top / 'pc' / f'{name}.pc').write_text(pc_file(name, version), encoding='utf-8')
            env = {k: v for k, v in os.environ.items() if not k.startswith('PKG_CONFIG')}
            done = subprocess.run(['meson', 'setup', top / 'build', top], env={**env, 'PKG_CONFIG_LIBDIR': str(top / 'pc')},
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout

    def refused(self, name, versions):
        wanted, package = self.rows[name]
        status, said = self.configure(versions)
        self.assertNotEqual(status, 0, said)
        self.assertRegex(said, rf'(?m)^Message: {re.escape(name)} {re.escape(wanted)} or later is needed: apt-get install {re.escape(package)} ')

    def test_each_library_that_is_used_is_checked(self):
        names = {OF_OTHERS.get(name, name) for name in used()} - {None, 'the tests'}
        self.assertEqual(names - set(self.rows), set())

    def test_the_oldest_versions_pass(self):
        status, said = self.configure({name: version for name, (version, _) in self.rows.items()})
        self.assertEqual(status, 0, said)

    def test_one_that_is_missing_or_too_old_is_named_with_its_package(self):
        whole = {name: version for name, (version, _) in self.rows.items()}
        cases = [(name, {other: version for other, version in whole.items() if other != name}) for name in whole]
        cases += [(name, {**whole, name: OLD}) for name in (min(whole), max(whole))]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for result in [pool.submit(self.refused, *case) for case in cases]:
                result.result()


if __name__ == '__main__':
    unittest.main()
