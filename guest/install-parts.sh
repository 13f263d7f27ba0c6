#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install what a VM boots from: install-parts.sh DIR
#
# Run by "meson install", which sets MESON_BUILD_ROOT and DESTDIR; DIR is an absolute path below DESTDIR. A kernel goes
# with the initramfs that fits it: our own (kernel/build.sh), where it was built, with that of the agent alone; else Debian's
# (kernel-package.sh) with the one that has its modules; where there is neither, the initramfs goes alone.
set -eu
built=$MESON_BUILD_ROOT/guest dir=${DESTDIR-}$1

# The new file takes the old one's name whole: a VM may be starting from it.
put()
{
	[ -n "${MESON_INSTALL_QUIET-}" ] || echo "Installing $1 to $dir"
	mkdir -p "$dir"
	install -m 0644 "$1" "$dir/.${1##*/}.new"
	mv "$dir/.${1##*/}.new" "$dir/${1##*/}"
}

# The library takes vmlinux before vmlinuz: what was installed before and does not fit must not be what it finds.
take_away()
{
	[ ! -f "$dir/$1" ] || {
		echo "install-parts.sh: $dir/$1 is removed: $2" >&2
		rm "$dir/$1"
	}
}

if [ -f "$built/vmlinux" ] && [ -f "$built/initramfs.img" ]; then
	put "$built/initramfs.img"
	put "$built/vmlinux"
	take_away vmlinuz "the initramfs has no modules for it now, and vmlinux needs none"
elif [ -f "$built/kernel/vmlinuz" ] && [ -f "$built/kernel/initramfs.img" ]; then
	put "$built/kernel/initramfs.img"
	put "$built/kernel/vmlinuz"
	take_away vmlinux "this build has no kernel of our own (guest/kernel/build.sh)"
elif [ -f "$built/initramfs.img" ]; then
	if [ -f "$dir/vmlinuz" ]; then
		echo "install-parts.sh: $dir/vmlinuz stays, but its modules go:" \
			"run guest/kernel-package.sh and install again" >&2
	fi
	put "$built/initramfs.img"
else
	echo "install-parts.sh: no initramfs was built: VMs need one named when they are created" >&2
fi
