#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Get the guest's kernel: kernel-package.sh DIR
#
# Takes Debian's newest cloud kernel as a package (Debian 12: from its backports; 13 and later: stock) from the mirror that
# this machine is configured for, or the file that CCHV_KERNEL_DEB names, and unpacks it; nothing is installed, and the
# machine's own apt configuration and lists stay as they are. DIR gets
#   vmlinuz, config    the kernel
#   modules.img        the modules that guests need (guest/mkmodules)
#   initramfs.img      the agent and these modules, if the agent is built: what a VM boots with
#   package/           the package's contents
#   version            the package's file name; if that is the one wanted, nothing is done
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/../examples/debian-apt.sh"

fail()
{
	echo "kernel-package.sh: $*" >&2
	exit 1
}

[ $# -eq 1 ] || fail "usage: kernel-package.sh DIR"
mkdir -p "$1"
dir=$(cd "$1" && pwd)
scratch=$(mktemp -d "$dir/.new.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

# With the backports' lists on Debian 12, whose own kernel is older.
fetch()
{
	suite=
	[ "$(debian_codename)" != bookworm ] || suite=bookworm-backports
	debian_update ${suite:+backports} || fail "cannot read the package lists"
	package=$(debian_newest linux-image-cloud-amd64 'linux-image-[0-9].*-cloud-amd64' $suite)
	[ -n "$package" ] || fail "the mirror has no linux-image-cloud-amd64"
	(cd "$scratch" && debian_run "downloading $package" debian_apt apt-get -o APT::Sandbox::User=root download -q "$package") ||
		fail "cannot download $package"
	deb=$(ls "$scratch"/*.deb)
}

unpack()
{
	dpkg-deb -x "$deb" "$scratch/package"
	kernel=$(ls "$scratch"/package/boot/vmlinuz-* | sort -V | tail -n 1)
	release=${kernel##*/vmlinuz-}
	modules=
	for lib in lib usr/lib; do
		[ ! -d "$scratch/package/$lib/modules/$release" ] || modules=$scratch/package/$lib/modules/$release
	done
	[ -n "$modules" ] || fail "no modules of $release in $deb"
	python3 "$here/mkmodules" "$scratch/modules.img" "$modules"
	cp "$kernel" "$scratch/vmlinuz"
	cp "$scratch/package/boot/config-$release" "$scratch/config"
}

# The name comes last: a run that was interrupted is done again.
put_in_place()
{
	rm -rf "$dir/version" "$dir/package"
	for f in vmlinuz config modules.img package; do
		mv "$scratch/$f" "$dir/$f"
	done
	basename "$deb" >"$dir/version"
}

join()
{
	agent=$dir/../initramfs.img
	[ -f "$agent" ] || return 0
	cat "$agent" "$dir/modules.img" >"$scratch/initramfs.img"
	mv "$scratch/initramfs.img" "$dir/initramfs.img"
}

if [ -n "${CCHV_KERNEL_DEB-}" ]; then
	deb=$CCHV_KERNEL_DEB
	[ -f "$deb" ] || fail "CCHV_KERNEL_DEB: no file '$deb'"
	[ "$(cat "$dir/version" 2>/dev/null)" != "$(basename "$deb")" ] || wanted=here
elif [ -f "$dir/version" ]; then
	# What was fetched once is kept; remove DIR to get a newer one.
	wanted=here
fi
if [ "${wanted-}" != here ]; then
	[ -n "${CCHV_KERNEL_DEB-}" ] || fetch
	unpack
	put_in_place
fi
join
echo "guest kernel: $(cat "$dir/version")"
