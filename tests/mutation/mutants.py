# SPDX-License-Identifier: BSD-3-Clause
"""All places of a C file at which one small change makes a mutant: read from clang's syntax tree (Debian: python3-clang)."""
import collections
import re

from clang import cindex
from clang.cindex import CursorKind as K

# file: below lib/. lines: the statement or condition that changes, for the choice of tests that reach it.
Mutant = collections.namedtuple('Mutant', 'file start end line lines kind old new')

OTHERS = {
    # relational
    '<': ['<=', '>='], '<=': ['<', '>'], '>': ['>=', '<='], '>=': ['>', '<'], '==': ['!='], '!=': ['=='],
    # arithmetic, bitwise, shifts, logical
    '+': ['-'], '-': ['+'], '*': ['/'], '/': ['*'], '%': ['/'],
    '&': ['|'], '|': ['&'], '^': ['&'], '<<': ['>>'], '>>': ['<<'], '&&': ['||'], '||': ['&&'],
    # assignments
    '+=': ['-=', '='], '-=': ['+=', '='], '|=': ['&=', '='], '&=': ['|=', '='], '^=': ['='], '<<=': ['>>='], '>>=': ['<<='],
    '*=': ['/='], '/=': ['*='], '%=': ['/='],
}
KIND = {**dict.fromkeys(['<', '<=', '>', '>=', '==', '!='], 'relational'),
        **dict.fromkeys(['+', '-', '*', '/', '%'], 'arithmetic'), **dict.fromkeys(['&', '|', '^', '<<', '>>'], 'bitwise'),
        **dict.fromkeys(['&&', '||'], 'logical')}
COMMENT = re.compile(rb'/\*.*?\*/|//[^\n]*', re.S)
LITERAL = re.compile(r'(0[xX][0-9a-fA-F]+|\d+)[uUlL]*')
# Not our rules but checks of them, or text: a change there says nothing about the tests.
NOT_THESE = re.compile(r'UROCE_ASSERT|static_assert|_Static_assert|RTE_BUILD_BUG_ON|MARK\(')
STATEMENTS = {K.CALL_EXPR: 'deleted call', K.BINARY_OPERATOR: 'deleted assignment', K.UNARY_OPERATOR: 'deleted step',
              K.COMPOUND_ASSIGNMENT_OPERATOR: 'deleted assignment', K.BREAK_STMT: 'deleted break', K.CONTINUE_STMT: 'deleted continue',
              K.RETURN_STMT: 'deleted return', K.GOTO_STMT: 'deleted goto'}


class File:
    """The mutants of one file."""

    def __init__(self, lib, name, args):
        self.name, self.path = name, str(lib / name)
        self.text = (lib / name).read_bytes()
        self.found = {}
        tu = cindex.Index.create().parse(self.path, args=args)
        errors = [d for d in tu.diagnostics if d.severity >= cindex.Diagnostic.Error]
        if errors:
            raise ValueError(f'{name}: {errors[0]}')
        for c in tu.cursor.get_children():
            if c.location.file and c.location.file.name == self.path:
                if c.kind == K.FUNCTION_DECL and c.is_definition():
                    self.function(c)
                elif c.kind in (K.VAR_DECL, K.ENUM_DECL):
                    self.walk(c, c, c)

    def part(self, start, end):
        return self.text[start:end].decode()

    def add(self, at, start, end, kind, new):
        old = self.part(start, end)
        if new != old:
            line = self.text.count(b'\n', 0, start) + 1
            m = Mutant(self.name, start, end, line, at, kind, old, new)
            self.found.setdefault((start, end, new), m)

    def function(self, f):
        body = next((c for c in f.get_children() if c.kind == K.COMPOUND_STMT), None)
        if body is None:
            return
        start = body.extent.start.offset
        if self.part(start, start + 1) != '{':
            return
        result = f.result_type.get_canonical()
        lines = (f.extent.start.line, f.extent.end.line)
        word = 'return' if result.kind == cindex.TypeKind.VOID else 'return 0'
        if result.kind != cindex.TypeKind.RECORD:
            # Once for a function that returns at once.
            self.add(lines, start, start + 1, 'early return', '{ ' + word + ';')
        self.walk(body, body, f)

    def walk(self, c, around, f):
        for child in c.get_children():
            self.cursor(child, c, child if c.kind == K.COMPOUND_STMT else around, f)

    def cursor(self, c, parent, around, f):
        e = c.extent
        text = self.part(e.start.offset, e.end.offset)
        # A long statement holds smaller ones, which say for themselves which lines they are.
        lines = (e.start.line, e.end.line) if c.kind != K.COMPOUND_STMT else None
        if lines and NOT_THESE.match(text):
            return
        if parent.kind == K.COMPOUND_STMT or (parent.kind in (K.IF_STMT, K.FOR_STMT, K.WHILE_STMT) and c.kind in STATEMENTS and
                                              self.ends_statement(e.end.offset)):
            self.statement(c, text, lines)
        if c.kind in (K.BINARY_OPERATOR, K.COMPOUND_ASSIGNMENT_OPERATOR):
            self.binary(c, lines)
        elif c.kind == K.UNARY_OPERATOR:
            self.unary(c, text, lines)
        elif c.kind == K.CONDITIONAL_OPERATOR:
            self.negate(next(c.get_children()), lines)
        elif c.kind in (K.IF_STMT, K.WHILE_STMT):
            self.negate(next(c.get_children()), (e.start.line, e.start.line))
        elif c.kind == K.INTEGER_LITERAL:
            self.constant(c, text, lines)
        elif c.kind == K.RETURN_STMT:
            self.result(text, e, lines)
        self.walk(c, around, f)

    def ends_statement(self, end):
        return self.text[end:end + 8].lstrip()[:1] == b';'

    def statement(self, c, text, lines):
        if c.kind not in STATEMENTS or not self.ends_statement(c.extent.end.offset):
            return
        if c.kind == K.BINARY_OPERATOR and '=' not in text:
            return
        if c.kind == K.RETURN_STMT and text != 'return':
            return
        self.add(lines, c.extent.start.offset, c.extent.end.offset, STATEMENTS[c.kind], '')

    def operator(self, c):
        """Returns the operator of two operands and where it stands, or None if a macro has written them."""
        kids = list(c.get_children())
        if len(kids) != 2:
            return None
        a, b = kids[0].extent.end.offset, kids[1].extent.start.offset
        between = COMMENT.sub(lambda m: b' ' * len(m[0]), self.text[a:b]).decode()
        op = between.strip()
        return (op, a + between.index(op)) if op in OTHERS else None

    def compares(self, c):
        found = self.operator(c) if c.kind == K.BINARY_OPERATOR else None
        return found is not None and KIND.get(found[0]) == 'relational'

    def binary(self, c, lines):
        found = self.operator(c)
        if found is None:
            return
        op, start = found
        for new in OTHERS[op]:
            self.add(lines, start, start + len(op), KIND.get(op, 'assignment'), new)

    def unary(self, c, text, lines):
        start, end = c.extent.start.offset, c.extent.end.offset
        if text.startswith('!'):
            self.add(lines, start, start + 1, 'negation removed', '')
        elif text.startswith('~') or (text.startswith('-') and not text.startswith('--')):
            self.add(lines, start, start + 1, 'sign removed', '')
        elif text.startswith(('++', '--')):
            self.add(lines, start, start + 2, 'step turned', '--' if text[0] == '+' else '++')
        elif text.endswith(('++', '--')):
            self.add(lines, end - 2, end, 'step turned', '--' if text[-1] == '+' else '++')

    def negate(self, c, lines):
        start, end = c.extent.start.offset, c.extent.end.offset
        text = self.part(start, end)
        if self.compares(c):
            return  # the other operator says the same
        if text and text.count('(') == text.count(')') and not NOT_THESE.search(text):
            self.add(lines, start, end, 'negated condition', f'!({text})')

    def constant(self, c, text, lines):
        if not LITERAL.fullmatch(text):
            return
        number = int(re.match(r'0[xX][0-9a-fA-F]+|\d+', text)[0], 16 if text[:2] in ('0x', '0X') else 10)
        for new in {number + 1, number - 1, 0} - {number, -1}:
            self.add(lines, c.extent.start.offset, c.extent.end.offset, 'constant', str(new) + ('ULL' if new >> 31 else ''))

    def result(self, text, e, lines):
        for old, new in (('return true', 'return false'), ('return false', 'return true')):
            if text == old:
                self.add(lines, e.start.offset, e.end.offset, 'result', new)


def of_file(lib, name, args):
    return sorted(File(lib, name, args).found.values(), key=lambda m: (m.start, m.end, m.new))
