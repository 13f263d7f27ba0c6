#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build consumer.c with nothing but what pkg-config says of the build tree, and run it.
# Usage: check_consumer.sh BUILD CONSUMER
set -eu
name=cchv-uninstalled consumer=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

PKG_CONFIG_PATH=$1/meson-uninstalled LD_LIBRARY_PATH=$1/lib
export PKG_CONFIG_PATH LD_LIBRARY_PATH
flags=$(pkg-config --cflags --libs "$name")
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -Wall -Wextra -Werror -pedantic "$consumer" -o "$work/consumer" $flags
version=$("$work/consumer")
[ "$version" = "$(pkg-config --modversion "$name")" ] || {
	echo "FAILED consumer: the program says $version, pkg-config $(pkg-config --modversion "$name")"
	exit 1
}
echo "ok consumer"
