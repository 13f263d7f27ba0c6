#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the build and the tests need on a fresh Debian machine, as root; does nothing where all is there.
set -eu
cd "$(dirname "$0")/.."
[ "${CCHV_TEST_FULL:-0}" = 1 ] && full="image full" || full=
exec sh examples/install-debian.sh build run test $full
