#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run commands in a container in a VM of its own, in the form of the module subprocess.

Usage: run_command.py IMAGE COMMAND [ARG...]    (IMAGE: a name in the cache, a digest, or the path of an .erofs file)
"""
import os
import sys

import cchv


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    with cchv.Context(state_dir=os.environ.get("CCHV_STATE_DIR"), runtime_dir=os.environ.get("CCHV_RUNTIME_DIR")) as ctx:
        done = cchv.run(sys.argv[1], sys.argv[2:], context=ctx, capture_output=True, text=True)
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr)
    return done.exit_code if done.exit_code is not None else 128 + done.signal


if __name__ == "__main__":
    try:
        sys.exit(main())
    except cchv.Error as error:
        print(error, file=sys.stderr)
        sys.exit(125)
