# SPDX-License-Identifier: Apache-2.0
"""Count the cases of a meson test log (one JSON object a line): prints "PASSED FAILED SKIPPED".

A test program that prints "ok NAME" and "FAILED NAME" lines counts by those; any other counts as one case.
"""
import json
import sys

passed = failed = skipped = 0
for line in open(sys.argv[1], encoding="utf-8"):
    test = json.loads(line)
    lines = test.get("stdout", "").splitlines()
    ok = sum(1 for text in lines if text.startswith("ok "))
    bad = sum(1 for text in lines if text.startswith("FAILED "))
    skip = sum(1 for text in lines if text.startswith("skipped "))
    if test["result"] == "SKIP":
        skipped += max(skip, 1)
    elif test["result"] in ("OK", "EXPECTEDFAIL"):
        passed += ok or (0 if skip else 1)
        skipped += skip
    else:
        passed += ok
        failed += max(bad, 1)
        skipped += skip
print(passed, failed, skipped)
