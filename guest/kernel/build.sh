#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build the guests' own small kernel: guest/kernel/build.sh DIR
#
# From Debian's newest linux-source package (Debian 12: its backports tell which series), taken from the mirror that this
# machine is configured for, or from the package file that CCHV_KERNEL_SOURCE names; nothing of it is installed. What it is
# compiled with is installed where it is missing, as root (examples/install-debian.sh kernel). It takes half an hour of one
# processor. DIR is guest/ of the build directory, and gets
#   vmlinux           the kernel: uncompressed ELF with an entry for PVH, no modules, so that the initramfs beside it fits
#   vmlinux.config    its whole configuration
#   vmlinux.version   what it was made from; if nothing of that has changed, nothing is done
# A library that runs from the build tree, or is installed from it, takes this kernel before Debian's.
#
# The same package, fragment, script and compiler make the same bytes, anywhere and at any time; what they made is kept, and
# found again, in CCHV_KERNEL_CACHE (default /var/cache/cchv-kernel, or below the user's ~/.cache), 12 MB each.
# CCHV_KERNEL_JOBS: how much is compiled at once (default: one job for each processor).
# CCHV_KERNEL_CCACHE=1: compile through ccache, for whoever changes the fragment again and again; a file whose options are the
# same is not compiled twice.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
. "$top/examples/debian-apt.sh"

fail()
{
	echo "kernel/build.sh: $*" >&2
	exit 1
}

[ $# -eq 1 ] || fail "usage: build.sh DIR"
mkdir -p "$1"
dir=$(cd "$1" && pwd)
if [ "$(id -u)" = 0 ]; then
	cache=${CCHV_KERNEL_CACHE-/var/cache/cchv-kernel}
else
	cache=${CCHV_KERNEL_CACHE-${XDG_CACHE_HOME:-$HOME/.cache}/cchv-kernel}
fi
mkdir -p "$cache"
scratch=$(mktemp -d "$cache/.new.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

# The source: a package's file name and its checksum.
find_source()
{
	if [ -n "${CCHV_KERNEL_SOURCE-}" ]; then
		[ -f "$CCHV_KERNEL_SOURCE" ] || fail "CCHV_KERNEL_SOURCE: no file '$CCHV_KERNEL_SOURCE'"
		source="$(basename "$CCHV_KERNEL_SOURCE") $(sha256sum <"$CCHV_KERNEL_SOURCE" | cut -d ' ' -f 1)"
		return 0
	fi
	suite=
	[ "$(debian_codename)" != bookworm ] || suite=bookworm-backports
	debian_update ${suite:+backports} || fail "cannot read the package lists"
	package=$(debian_newest linux-source "linux-source-[0-9].*" $suite)
	[ -n "$package" ] || fail "the mirror has no linux-source"
	# The newest version of this series: security updates go before backports.
	source=$(debian_apt apt-cache show --no-all-versions "$package" | awk '
		/^Filename: / { sub(".*/", "", $2); name = $2 }
		/^SHA256: / { sum = $2 }
		END { if (name && sum) print name, sum }')
	[ -n "$source" ] || fail "the package lists do not tell the checksum of $package"
}

# What the kernel is made from, as one number. The script itself is part of it, and so are its tools.
make_key()
{
	key=$({
		echo "$source"
		gcc --version
		ld --version
		cat "$here/fragment" "$here/build.sh" "$here/pack.py"
	} | sha256sum | cut -d ' ' -f 1)
}

fetch()
{
	deb=${CCHV_KERNEL_SOURCE-}
	[ -z "$deb" ] || return 0
	(cd "$scratch" && debian_run "downloading $package" debian_apt apt-get -o APT::Sandbox::User=root download -q \
		"$package") || fail "cannot download $package"
	deb=$(ls "$scratch"/*.deb)
	[ "$(sha256sum <"$deb" | cut -d ' ' -f 1)" = "${source#* }" ] || fail "$deb is not what the package lists tell"
}

# Without most of what is for other machines: two thirds of it are never read.
unpack()
{
	dpkg-deb --fsys-tarfile "$deb" | tar -x -f - -C "$scratch" --wildcards './usr/src/linux-source-*.tar.xz' ||
		fail "$deb holds no source of a kernel"
	[ -n "${CCHV_KERNEL_SOURCE-}" ] || rm "$deb"
	mkdir "$scratch/linux"
	tar -x -f "$scratch"/usr/src/linux-source-*.tar.xz -C "$scratch/linux" --strip-components=1 --wildcards \
		--exclude='*/arch/[!x]*/*.[chS]' --exclude='*/arch/[!x]*/*.dts*' --exclude='*/Documentation/*/*' \
		--exclude='*/drivers/gpu/*.[ch]' --exclude='*/drivers/staging/*.[ch]' --exclude='*/sound/*.[ch]' || fail "cannot unpack the source"
	rm -r "$scratch/usr"
}

# make in an environment of our own: no flag, name, place or time of the caller's gets into the kernel.
build()
{
	env -i PATH="$PATH" HOME="$scratch" LC_ALL=C TZ=UTC KBUILD_BUILD_USER=cchv KBUILD_BUILD_HOST=cchv \
		KBUILD_BUILD_TIMESTAMP='1970-01-01 00:00:00 UTC' KBUILD_BUILD_VERSION=1 SOURCE_DATE_EPOCH=0 "$@"
}

# kmake ARGUMENT...: the kernel's make.
kmake()
{
	if [ "${CCHV_KERNEL_CCACHE-}" = 1 ]; then
		build CCACHE_DIR="$cache/ccache" CCACHE_NOHASHDIR=1 make -s -C "$scratch/linux" CC="ccache gcc" "$@"
	else
		build make -s -C "$scratch/linux" "$@"
	fi
}

configure()
{
	kmake KCONFIG_ALLCONFIG="$here/fragment" allnoconfig >"$scratch/log" 2>&1 || {
		cat "$scratch/log" >&2
		fail "the kernel's configuration failed"
	}
	python3 "$here/check.py" config "$here/fragment" "$scratch/linux/.config" ||
		fail "the kernel's configuration is not what guest/kernel/fragment asks for"
}

compile()
{
	debian_run "compiling the kernel" kmake -j "${CCHV_KERNEL_JOBS:-$(nproc)}" vmlinux ||
		fail "the kernel could not be compiled"
	mkdir "$scratch/done"
	cp "$scratch/linux/.config" "$scratch/done/vmlinux.config"
	objcopy --strip-all "$scratch/linux/vmlinux" "$scratch/stripped"
	python3 "$here/pack.py" "$scratch/stripped" "$scratch/done/vmlinux" || fail "the kernel could not be packed"
	chmod 0644 "$scratch"/done/*
	python3 "$here/check.py" image "$scratch/done/vmlinux" || fail "the kernel is not what a VM can boot"
}

# Whoever builds the same at the same time waits, and finds it done.
make_entry()
{
	exec 9>"$cache/lock"
	flock 9
	[ ! -f "$cache/$key/vmlinux" ] || return 0
	echo "guest kernel: building from ${source% *}"
	fetch
	unpack
	configure
	compile
	sync "$scratch/done/vmlinux" "$scratch/done/vmlinux.config"
	rm -rf "$cache/$key"
	mv "$scratch/done" "$cache/$key"
}

# The new file takes the old one's name whole: a VM may be starting from it. The version goes first and comes last: a run
# that was interrupted is done again.
put_in_place()
{
	rm -f "$dir/vmlinux.version"
	for f in vmlinux.config vmlinux; do
		cp "$cache/$key/$f" "$dir/.$f.new"
		mv "$dir/.$f.new" "$dir/$f"
	done
	echo "$source $key" >"$dir/vmlinux.version"
}

sh "$top/examples/install-debian.sh" kernel
source=
if [ -z "${CCHV_KERNEL_SOURCE-}" ] && [ -f "$dir/vmlinux.version" ]; then
	# What was built once is kept while what it was built by is the same; remove the file to get a newer source.
	read -r name sum kept <"$dir/vmlinux.version"
	source="$name $sum"
	make_key
	[ "$key" = "$kept" ] && [ -f "$dir/vmlinux" ] || source=
fi
if [ -z "$source" ]; then
	find_source
	make_key
	if [ "$(cat "$dir/vmlinux.version" 2>/dev/null)" != "$source $key" ] || [ ! -f "$dir/vmlinux" ]; then
		make_entry
		put_in_place
	fi
fi
echo "guest kernel: ${source% *}, $(wc -c <"$dir/vmlinux") bytes"
