#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lib/libcchv.map lists each function of the public headers once, in order, and nothing else."""
import headers
import tree


def check(root):
    declared = [f.name for f in headers.functions(root)]
    mapped = headers.map_symbols(root)
    complaints = [f"{name} is declared twice" for name in sorted({n for n in declared if declared.count(n) > 1})]
    complaints += [f"lib/libcchv.map: {name} is listed twice"
                   for name in sorted({n for n in mapped if mapped.count(n) > 1})]
    complaints += [f"lib/libcchv.map: {name} is missing" for name in sorted(set(declared) - set(mapped))]
    complaints += [f"lib/libcchv.map: {name} is in no public header" for name in sorted(set(mapped) - set(declared))]
    if not complaints and mapped != sorted(mapped):
        complaints.append("lib/libcchv.map: symbols are not in order")
    return complaints


if __name__ == "__main__":
    tree.run(check, __doc__)
