#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""layers.py finds what it is for: small trees with one violation each. Usage: test_layers.py COMPILER..."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import layers  # noqa: E402

COMPILER = ['cc']
DECLARED = 'int f(void), g(void); extern int data;\n'
TABLES = {
    'FOLDERS': {
        'lib/base': ('', '*'),
        'lib/wire': ('base', 'wire.h'),
        'lib/mem': ('base', 'mem.h'),
        'lib/cm': ('base wire', 'cm.h'),
        'lib/net': ('base wire', 'net.h'),
        'lib/engine': ('base net', 'engine.h'),
        'lib/control': ('base cm net engine', 'control.h'),
    },
    'PARTS': {'lib/control': ['core', 'memory', 'obj', 'cma', '.'], 'lib/net': ['port', '.']},
    'UNORDERED': {}, 'PRIVATE': {}, 'CYCLES': {}, 'LONG': {},
}


class Trees(unittest.TestCase):
    def setUp(self):
        for name, table in TABLES.items():
            self.addCleanup(setattr, layers, name, getattr(layers, name))
            setattr(layers, name, table)

    def violations(self, tree):
        """What layers.py says of a tree {path: text}, which is compiled first."""
        with tempfile.TemporaryDirectory() as root:
            commands = []
            for path, text in tree.items():
                os.makedirs(os.path.dirname(f'{root}/{path}'), exist_ok=True)
                with open(f'{root}/{path}', 'w', encoding='utf-8') as f:
                    f.write(text)
            for number, path in enumerate(path for path in tree if path.endswith('.c')):
                subprocess.run([*COMPILER, '-iquote', f'{root}/lib', '-c', f'{root}/{path}', '-o', f'{root}/{number}.o'], check=True)
                commands.append({'directory': root, 'file': path, 'output': f'{number}.o'})
            with open(f'{root}/compile_commands.json', 'w', encoding='utf-8') as f:
                json.dump(commands, f)
            return [*layers.check_files(root), *layers.check_calls(layers.call_graph(*layers.symbols(root, root)))]

    def assert_one(self, tree, *words):
        found = self.violations(tree)
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_a_tree_whose_files_use_what_is_below_them_is_right(self):
        self.assertEqual(self.violations({
            'lib/base/b.h': DECLARED, 'lib/base/b.c': 'int f(void) { return 1; }\n',
            'lib/wire/w.c': '#include "base/b.h"\nint g(void) { return f(); }\n',
            'lib/control/core/c_priv.h': DECLARED,
            'lib/control/obj/o.c': '#include "control/core/c_priv.h"\n#include <stdint.h>\nint data;\n',
            'app/x/main.c': '#include "base/b.h"\nint main(void) { return f(); }\n',
            'app/y/main.c': 'int g(void);\nint main(void) { return g(); }\n', 'app/y/g.c': 'int g(void) { return 2; }\n'}), [])

    def test_an_include_of_a_higher_folder_is_found(self):
        self.assert_one({'lib/mem/mem.h': '', 'lib/wire/w.c': '#include "mem/mem.h"\n'}, 'lib/wire/w.c includes mem/mem.h', 'only lib/base')

    def test_a_private_header_included_from_another_folder_is_found(self):
        self.assert_one({'lib/net/net_priv.h': '', 'lib/engine/e.c': '#include "net/net_priv.h"\n'}, 'it is private', 'only net.h')

    def test_a_header_that_others_may_not_include_is_found(self):
        self.assert_one({'lib/control/core/types.h': '', 'app/a/a.c': '#include "control/core/types.h"\n'}, 'it is private')

    def test_an_include_of_a_higher_part_is_found(self):
        self.assert_one({'lib/control/cma/cma_priv.h': '', 'lib/control/obj/qp.c': '#include "control/cma/cma_priv.h"\n'},
                        'lib/control/obj/qp.c includes control/cma/cma_priv.h: obj may use only core, memory')

    def test_a_call_of_a_higher_part_is_found_whatever_header_declares_it(self):
        self.assert_one({'lib/control/core/a.c': 'int f(void);\nint g(void) { return f(); }\n', 'lib/control/obj/a.c': 'int f(void) { return 1; }\n'},
                        'lib/control/core/a.c uses f of lib/control/obj/a.c: core may use only no other part')

    def test_a_variable_of_a_higher_folder_is_found(self):
        self.assert_one({'lib/base/b.c': 'extern int data;\nint g(void) { return data; }\n', 'lib/cm/cm.c': 'int data = 1;\n'},
                        'lib/base/b.c uses data of lib/cm/cm.c')

    def test_a_cycle_of_more_than_eight_files_is_found(self):
        def ring(n):
            return {f'lib/cm/f{i}.c': f'int f{(i + 1) % n}(void);\nint f{i}(void) {{ return f{(i + 1) % n}(); }}\n' for i in range(n)}
        self.assertEqual(self.violations(ring(8)), [])
        self.assert_one(ring(9), 'lib/cm: 9 files call each other in a cycle, at most 8 may', 'f8.c uses f0 of f0.c')

    def test_files_and_parts_that_no_table_has_are_found(self):
        self.assert_one({'lib/base/b.c': 'int data;\n', 'lib/new/n.c': ''}, 'lib/new/n.c is in a folder that FOLDERS')
        self.assert_one({'lib/net/net.h': '', 'lib/net/port/p_priv.h': '', 'lib/net/new/n.c': '#include "net/port/p_priv.h"\n'}, 'is in no part of lib/net')

    def test_a_file_that_is_too_long_is_found(self):
        self.assertEqual(self.violations({'lib/base/b.c': '\n' * 600}), [])
        self.assert_one({'lib/base/b.c': '\n' * 601}, 'lib/base/b.c has 601 lines')


if __name__ == '__main__':
    COMPILER = sys.argv[1:] or COMPILER
    unittest.main(argv=sys.argv[:1], verbosity=2)
