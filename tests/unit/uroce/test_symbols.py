#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""liburoce exports what its headers declare and nothing else; no name of libibverbs' is in it, defined or wanted.

test_symbols.py LIBRARY UROCE_H SYMBOLS_TXT
"""
import re
import subprocess
import sys


def dynamic_symbols(library):
    """Return (defined, undefined), without versions."""
    defined, undefined = set(), set()
    for line in subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True).stdout.splitlines():
        fields = line.split()
        name = fields[-1].split("@")[0]
        (undefined if fields[-2] in "Uw" else defined).add(name)
    return defined, undefined


def main():
    library, header, symbols = sys.argv[1:4]
    text = re.sub(r"/\*.*?\*/", "", open(header).read(), flags=re.S)
    wanted = set(re.findall(r"\b(uroce_\w+)\(", text))
    verbs = {f[1] for f in (line.split("#")[0].split() for line in open(symbols)) if len(f) == 2}
    wanted |= {"uroce_" + name for name in verbs}
    defined, undefined = dynamic_symbols(library)
    defined = {name for name in defined if not name.startswith("UROCE_")}
    errors = [f"not exported: {n}" for n in sorted(wanted - defined)]
    errors += [f"exported, but declared nowhere: {n}" for n in sorted(defined - wanted)]
    errors += [f"libibverbs' own name: {n}" for n in sorted((defined | undefined) & verbs)]
    print("\n".join(errors) or f"{len(wanted)} symbols")
    return 1 if errors or len(wanted) < 50 else 0


sys.exit(main())
