#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Set up what is missing, build, run the tests, end with "N passed, N failed, N skipped".
# Usage: sh tests/run.sh [--full] [--suite NAME]...
set -u
cd "$(dirname "$0")/.." || exit 1

full=0
suites=
while [ $# -gt 0 ]; do
	case $1 in
	--full) full=1 ;;
	--suite) shift; suites="$suites ${1:?--suite needs a name}" ;;
	*) echo "run.sh: unknown argument '$1'" >&2; exit 2 ;;
	esac
	shift
done
# Tier 1; "tier1" are the programs of e2e that it takes. The full tier has all of them, the VMs of cchv-qemu itself, and
# the original on an emulated host (at the lengths of tier 1; skipped where there is none).
if [ -z "$suites" ]; then
	suites="unit lint abi fake shim image tier1"
	[ "$full" = 0 ] || suites="unit lint abi fake shim image sanitized qemu e2e chv kernel"
fi
export CCHV_TEST_FULL=$full

sh tests/setup.sh || { echo "run.sh: setup failed" >&2; echo "0 passed, 1 failed, 0 skipped"; exit 1; }

build=${CCHV_BUILD:-build}
[ -f "$build/build.ninja" ] || meson setup "$build" || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }
ninja -C "$build" || { echo "run.sh: build failed" >&2; echo "0 passed, 1 failed, 0 skipped"; exit 1; }

# A fresh kernel package only where there is none; the initramfs beside it has the agent that was just built.
sh guest/kernel-package.sh "$build/guest/kernel" || {
	echo "run.sh: no guest kernel" >&2
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
}

# What the full tier runs PostgreSQL from; made once.
case " $suites " in
*" e2e "*)
	[ "$full" = 0 ] || sh examples/mkimage-postgres.sh "$build/tests/e2e/postgres" || {
		echo "run.sh: no root file system with PostgreSQL" >&2
		echo "0 passed, 1 failed, 0 skipped"
		exit 1
	} ;;
esac

passed=0 failed=0 skipped=0

# run_suite NAME LABEL BUILD WITHOUT PREFIX...: the cases of suite NAME that are not of WITHOUT, added to the sums.
run_suite() {
	name=$1 label=$2 where=$3 without=$4
	shift 4
	start=$(date +%s)
	log="$where/meson-logs/testlog-$name.json"
	echo "== suite $label"
	"$@" meson test -C "$where" --no-rebuild --suite "$name" --no-suite "$without" --logbase "testlog-$name" \
		--print-errorlogs -t $((1 + 3 * full))
	counts=$(python3 tests/count.py "$log") || counts="0 1 0"
	set -- $counts
	passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
	echo "== suite $label: $1 passed, $2 failed, $3 skipped in $(($(date +%s) - start)) s"
}

for suite in $suites; do
	if [ "$suite" = sanitized ]; then
		# Once more under AddressSanitizer and UBSan; what they find ends the program. "foreign" are programs that are
		# not built so but load the library. Python does not give back all that it has: leaks count in unit alone.
		{ [ -f "$build-sanitized/build.ninja" ] || meson setup "$build-sanitized" --native-file build-dev.ini; } &&
			ninja -C "$build-sanitized" || { echo "run.sh: sanitized build failed" >&2; failed=$((failed + 1)); continue; }
		# Its shadow memory has a fixed place, where address space layout randomisation may have put something else.
		asan=$(cc -print-file-name=libasan.so) fixed="setarch -R env UBSAN_OPTIONS=halt_on_error=1"
		run_suite unit sanitized-unit "$build-sanitized" foreign $fixed
		for part in foreign fake image; do
			run_suite $part sanitized-$part "$build-sanitized" none $fixed LD_PRELOAD="$asan" ASAN_OPTIONS=detect_leaks=0
		done
	else
		run_suite "$suite" "$suite" "$build" none env
	fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
