#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install what libcchv needs from Debian packages, as root; does nothing where all is there. Debian 12 and 13.
# Usage: sh examples/install-debian.sh build|run|image|test|all ...
#   build  compilers and libraries      run    QEMU, mkfs.erofs, mkfs.ext4
#   image  what makes images of Debian  test   what the tests use beside these
#
# QEMU: 10 or newer, since the emulator of 7.2 (Debian 12) crashes a third of all boots of a 6.12 kernel unless it hides an
# instruction (cchv-qemu does that then). Debian 12 has a newer one in its backports; they are read through a sources list of
# our own, made from the configured mirror with only the suite changed, so that the machine's own configuration stays as it is.
set -eu

build="gcc libc6-dev meson ninja-build pkg-config libyajl-dev libcurl4-openssl-dev uuid-dev libseccomp-dev
	libhttp-parser-dev cpio xz-utils zstd kmod"
run="libyajl2 libcurl4 libuuid1 libseccomp2 erofs-utils e2fsprogs qemu-system-x86"
image="debootstrap"
test="python3 bzip2 python3-pycparser g++ busybox-static skopeo umoci docker-registry strace socat jq expect xfsprogs attr libcap2-bin iproute2
	file gdb"

fail()
{
	echo "install-debian.sh: $*" >&2
	exit 1
}

is_installed()
{
	dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'
}

# The name of a package that this Debian release has: a library's may carry a suffix (libcurl4t64).
resolve()
{
	if is_installed "$1" || is_installed "${1}t64"; then
		return 0
	elif apt-cache show "$1" >/dev/null 2>&1; then
		echo "$1"
	elif apt-cache show "${1}t64" >/dev/null 2>&1; then
		echo "${1}t64"
	else
		echo "install-debian.sh: this Debian has no package '$1'" >&2
	fi
}

qemu_major()
{
	qemu-system-x86_64 --version 2>/dev/null | sed -n 's/^QEMU emulator version \([0-9]*\).*/\1/p'
}

# Options for apt that add the backports of this release to what is configured; nothing where there are none.
backports_options()
{
	. /etc/os-release
	dir=/var/cache/cchv-apt
	mkdir -p "$dir/lists/partial"
	uri=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
		awk -v r="$VERSION_CODENAME" '$2 == r { print $1; exit }')
	[ -n "$uri" ] || return 1
	cat /etc/apt/sources.list 2>/dev/null >"$dir/backports.list" || :
	key=/usr/share/keyrings/debian-archive-keyring.gpg
	echo "deb [signed-by=$key] $uri ${VERSION_CODENAME}-backports main" >>"$dir/backports.list"
	echo "-o Dir::Etc::SourceList=$dir/backports.list -o Dir::State::Lists=$dir/lists"
}

install()
{
	DEBIAN_FRONTEND=noninteractive apt-get "$@" -y -q --no-install-recommends >/dev/null || fail "apt-get $* failed"
}

newer_qemu()
{
	case $(qemu_major) in
	"" | [1-9]) ;;
	*) return 0 ;;
	esac
	options=$(backports_options) || return 0
	# shellcheck disable=SC2086
	if apt-get $options update -q >/dev/null 2>&1 &&
		apt-cache $options policy qemu-system-x86 2>/dev/null | grep -q bpo; then
		. /etc/os-release
		echo "installing QEMU from $VERSION_CODENAME-backports"
		# shellcheck disable=SC2086
		install $options install -t "$VERSION_CODENAME-backports" qemu-system-x86
	else
		echo "install-debian.sh: no newer QEMU than $(qemu_major) here; it runs without cmpxchg16b" >&2
	fi
}

# virtiofsd shares directories. Debian 13 has it as a package; in Debian 12 it is a file of QEMU 7.2's common package, which
# a newer QEMU has replaced: taken out of the package and put where the administrator's own programs are.
virtiofsd()
{
	for f in /usr/libexec/virtiofsd /usr/lib/qemu/virtiofsd /usr/local/bin/virtiofsd; do
		[ ! -x $f ] || return 0
	done
	if [ -n "$(apt-cache search --names-only '^virtiofsd$')" ]; then
		install install virtiofsd
		return 0
	fi
	version=$(apt-cache madison qemu-system-common | awk '$3 ~ /^1:7\./ { print $3; exit }')
	[ -n "$version" ] || {
		echo "install-debian.sh: no virtiofsd here; directories cannot be shared" >&2
		return 0
	}
	echo "taking virtiofsd out of qemu-system-common $version"
	scratch=$(mktemp -d)
	(cd "$scratch" && apt-get -o APT::Sandbox::User=root download -q "qemu-system-common=$version" >/dev/null && dpkg-deb -x ./*.deb x) ||
		fail "cannot get qemu-system-common $version"
	cp "$scratch/x/usr/lib/qemu/virtiofsd" /usr/local/bin/virtiofsd
	rm -r "$scratch"
}

[ $# -gt 0 ] || fail "usage: install-debian.sh build|run|image|test|all ..."
wanted=
for part in "$@"; do
	case $part in
	build) wanted="$wanted $build" ;;
	run) wanted="$wanted $run" ;;
	image) wanted="$wanted $image" ;;
	test) wanted="$wanted $image $test" ;;
	all) wanted="$wanted $build $run $image $test" ;;
	*) fail "unknown part '$part'" ;;
	esac
done

missing=
for p in $wanted; do
	is_installed "$p" || is_installed "${p}t64" || missing="$missing $p"
done
if [ -n "$missing" ]; then
	[ "$(id -u)" = 0 ] || fail "not root, and missing:$missing"
	apt-get update -q >/dev/null || fail "apt-get update failed"
	names=
	for p in $missing; do
		names="$names $(resolve "$p")"
	done
	# shellcheck disable=SC2086
	set -- $names
	if [ $# -gt 0 ]; then
		echo "installing: $*"
		install install "$@"
	fi
fi
case " $wanted " in
*" qemu-system-x86 "*)
	[ "$(id -u)" != 0 ] || {
		newer_qemu
		virtiofsd
	}
	;;
esac
