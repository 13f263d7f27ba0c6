#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install what libcchv needs from Debian packages, as root; does nothing where all is there. Debian 12 and 13.
# Usage: sh examples/install-debian.sh build|run|image|test|full|kernel|all ...
#   build  compilers and libraries      run    QEMU, mkfs.erofs, mkfs.ext4
#   image  what makes images of Debian  test   what the tests use beside these
#   full   what the full tier of the tests uses beside these: containerd
#   kernel what guest/kernel/build.sh compiles the guests' own kernel with (not in all)
#
# QEMU: 10 or newer, since the emulator of 7.2 (Debian 12) crashes a third of all boots of a 6.12 kernel unless it hides an
# instruction (cchv-qemu does that then). Debian 12 has a newer one in its backports; they are read through a sources list of
# our own, made from the configured mirror with only the suite changed, so that the machine's own configuration stays as it is.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/debian-apt.sh"

build="gcc libc6-dev meson ninja-build pkg-config libyajl-dev libcurl4-openssl-dev uuid-dev libseccomp-dev
	libhttp-parser-dev libmnl-dev cpio xz-utils zstd kmod"
run="libyajl2 libcurl4 libuuid1 libseccomp2 erofs-utils e2fsprogs qemu-system-x86"
image="mmdebstrap"
test="python3 python3-pip bzip2 python3-pycparser g++ busybox-static skopeo umoci docker-registry strace socat jq expect xfsprogs attr libcap2-bin iproute2
	file"
kernel="gcc libc6-dev make flex bison bc libelf-dev xz-utils python3"

fail()
{
	echo "install-debian.sh: $*" >&2
	exit 1
}

is_installed()
{
	dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'
}

# The names of packages in this Debian release, for those that are not installed: a library's may carry a suffix (libcurl4t64).
resolve()
{
	known=$(for p in "$@"; do echo "$p ${p}t64"; done | xargs apt-cache --no-all-versions show 2>/dev/null | sed -n 's/^Package: //p')
	for p in "$@"; do
		if is_installed "$p" || is_installed "${p}t64"; then
			continue
		fi
		echo "$known" | grep -xF "$p" || echo "$known" | grep -xF "${p}t64" ||
			echo "install-debian.sh: this Debian has no package '$p'" >&2
	done
}

qemu_major()
{
	qemu-system-x86_64 --version 2>/dev/null | sed -n 's/^QEMU emulator version \([0-9]*\).*/\1/p'
}

# install PACKAGE... [-t SUITE]: with a suite, from our own lists.
install()
{
	echo "installing: $*"
	apt=apt-get
	case " $* " in *" -t "*) apt="debian_apt apt-get" ;; esac
	DEBIAN_FRONTEND=noninteractive debian_run "installing $*" $apt install -y -q --no-install-recommends "$@" || exit 1
}

# QEMU 10 or newer from the backports, where neither what is installed nor what this release would install is one. Before all
# else is installed, so that an older one is not downloaded only to be replaced.
newer_qemu()
{
	case $(qemu_major) in
	"" | [1-9]) ;;
	*) return 0 ;;
	esac
	case $(apt-cache policy qemu-system-x86 | sed -n 's/^ *Candidate: \([0-9]*:\)\?\([0-9]*\).*/\2/p') in
	"" | [1-9]) ;;
	*) return 0 ;;
	esac
	suite=$(debian_codename)-backports
	if debian_update backports && debian_apt apt-cache policy qemu-system-x86 | grep -q bpo; then
		install qemu-system-x86 -t "$suite"
	else
		echo "install-debian.sh: no QEMU 10 in the backports here; an older one runs without cmpxchg16b" >&2
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
		install virtiofsd
		return 0
	fi
	version=$(apt-cache madison qemu-system-common | awk '$3 ~ /^1:7\./ { print $3; exit }')
	[ -n "$version" ] || {
		echo "install-debian.sh: no virtiofsd here; directories cannot be shared" >&2
		return 0
	}
	echo "taking virtiofsd out of qemu-system-common $version"
	scratch=$(mktemp -d)
	(cd "$scratch" && debian_run "getting qemu-system-common $version" apt-get -o APT::Sandbox::User=root download -q \
		"qemu-system-common=$version" && dpkg-deb -x ./*.deb x) || exit 1
	cp "$scratch/x/usr/lib/qemu/virtiofsd" /usr/local/bin/virtiofsd
	rm -r "$scratch"
}

[ $# -gt 0 ] || fail "usage: install-debian.sh build|run|image|test|full|kernel|all ..."
wanted=
for part in "$@"; do
	case $part in
	build) wanted="$wanted $build" ;;
	run) wanted="$wanted $run" ;;
	image) wanted="$wanted $image" ;;
	test) wanted="$wanted $image $test" ;;
	full) wanted="$wanted containerd" ;;
	kernel) wanted="$wanted $kernel" ;;
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
	debian_run "apt-get update" apt-get update -q || exit 1
	case "$missing " in *" qemu-system-x86 "*) newer_qemu ;; esac
	# shellcheck disable=SC2086
	set -- $(resolve $missing)
	[ $# = 0 ] || install "$@"
fi
case " $wanted " in
*" qemu-system-x86 "*)
	[ "$(id -u)" != 0 ] || {
		newer_qemu
		virtiofsd
	}
	;;
esac
