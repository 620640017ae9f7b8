#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the symbols of our libibverbs.so.1 with the checked-in list and with the installed library of rdma-core.

usage: test_symbols.py OUR_LIBRARY SYMBOLS_TXT
"""
import glob
import re
import subprocess
import sys

PRIVATE_ABIS = (22, 25, 33, 34, 57, 59, 64, 65)
# What programs look up by dlsym(), which finds only default versions.
LOOKED_UP = ("ibv_query_gid_type", "ibv_wr_opcode_str")
DEBIAN = "/usr/lib/*/libibverbs.so.1"


def exported(path):
    """Names with version, "name@@VER" for defaults, as nm prints them."""
    out = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", path],
                         check=True, capture_output=True, text=True).stdout
    return {f[2] for f in map(str.split, out.splitlines()) if len(f) == 3 and f[1] != "A"}


def listed(path):
    names = set()
    for line in open(path):
        f = line.split()
        if f and f[0] != "#":
            names.add(f"{f[1]}@{'' if len(f) == 3 else '@'}{f[0]}")
    return names


def private(names):
    """Which node a private name is in, whether it is a default there or not."""
    return {n.replace("@@", "@") for n in names if "@IBVERBS_PRIVATE_" in n.replace("@@", "@")}


def complain(what, names):
    for n in sorted(names):
        print(f"{what}: {n}", file=sys.stderr)
    return bool(names)


def main():
    ours, want = exported(sys.argv[1]), listed(sys.argv[2])
    public = {n for n in ours if "PRIVATE" not in n}
    bad = complain("missing", want - public)
    bad |= complain("not in the list", public - want)
    for abi in PRIVATE_ABIS:
        need = {f"{n}@IBVERBS_PRIVATE_{abi}" for n in ("ibv_query_gid_type", f"verbs_register_driver_{abi}",
                                                         "verbs_allow_disassociate_destroy", "ibv_cmd_create_qp_ex2")}
        bad |= complain("missing", need - private(ours))
    bad |= complain("missing", {f"{n}@@IBVERBS_PRIVATE_34" for n in LOOKED_UP} - ours)
    if bad:
        return 1
    soname = subprocess.run(["objdump", "-p", sys.argv[1]], check=True, capture_output=True, text=True).stdout
    if not re.search(r"SONAME\s+libibverbs\.so\.1$", soname, re.M):
        print("soname isn't libibverbs.so.1", file=sys.stderr)
        return 1
    if re.search(r"NEEDED\s+\S*(rte_|isal|ibverbs)", soname):
        print("links what it must not", file=sys.stderr)
        return 1
    found = glob.glob(DEBIAN)
    if not found:
        print("skipped: rdma-core's libibverbs isn't installed")
        return 77
    theirs = exported(found[0])
    bad = complain("rdma-core has, we lack", {n for n in theirs if "PRIVATE" not in n} - public)
    return 1 if bad | complain("rdma-core has, we lack", private(theirs) - private(ours)) else 0


sys.exit(main())
