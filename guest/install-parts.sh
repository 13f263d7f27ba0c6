#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install what a VM boots from: install-parts.sh DIR
#
# Run by "meson install", which sets MESON_BUILD_ROOT and DESTDIR; DIR is an absolute path below DESTDIR. The kernel
# goes with the initramfs that has its modules; where no kernel was fetched, the initramfs goes alone.
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

if [ -f "$built/kernel/vmlinuz" ] && [ -f "$built/kernel/initramfs.img" ]; then
	put "$built/kernel/initramfs.img"
	put "$built/kernel/vmlinuz"
elif [ -f "$built/initramfs.img" ]; then
	if [ -f "$dir/vmlinuz" ]; then
		echo "install-parts.sh: $dir/vmlinuz stays, but its modules go:" \
			"run guest/kernel-package.sh and install again" >&2
	fi
	put "$built/initramfs.img"
else
	echo "install-parts.sh: no initramfs was built: VMs need one named when they are created" >&2
fi
