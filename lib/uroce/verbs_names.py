#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write uroce_verbs_names.h: the names that the verbs have in liburoce, from the list of libibverbs' public symbols."""
import sys

HEAD = """/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The names of the verbs inside liburoce. Included by uroce_verbs.h; generated from lib/verbs/symbols.txt.
 */
#ifndef UROCE_VERBS_NAMES_H
#define UROCE_VERBS_NAMES_H

#ifdef INFINIBAND_VERBS_H
#error "include uroce_verbs.h before infiniband/verbs.h: the functions must get their names before they are declared"
#endif

"""


def main():
    names = []
    for line in open(sys.argv[1]):
        fields = line.split("#")[0].split()
        if len(fields) == 2:
            names.append(fields[1])
    with open(sys.argv[2], "w") as out:
        out.write(HEAD)
        for name in sorted(set(names)):
            out.write(f"#pragma redefine_extname {name} uroce_{name}\n")
        out.write("\n#endif /* UROCE_VERBS_NAMES_H */\n")


main()
