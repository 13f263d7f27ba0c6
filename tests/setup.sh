#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install what the build and the tests need on a Debian machine, as root; does nothing where all is there.
set -u

packages="gcc meson ninja-build pkg-config libyajl-dev libcurl4-openssl-dev uuid-dev libseccomp-dev libhttp-parser-dev
	libmnl-dev erofs-utils e2fsprogs skopeo umoci busybox-static cpio xz-utils zstd python3
	python3-pycparser g++ strace socat jq expect"

missing=
for p in $packages; do
	dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
[ "$(id -u)" = 0 ] || { echo "setup.sh: missing packages:$missing" >&2; exit 1; }
echo "installing:$missing"
apt-get update -q >/dev/null || exit 1
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >/dev/null
