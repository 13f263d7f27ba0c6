#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# From a bare Debian 12 or 13 to PostgreSQL in a microVM, as root: installs what is missing, builds, makes an image from Debian
# packages, starts it with its data on a block device, runs pgbench inside over a Unix socket, stops it cleanly, starts it
# again and shows the data. Prints what each stage took. Everything of it lies in DIRECTORY (default /var/tmp/cchv-quickstart);
# the data on DEVICE, which must be empty or have an ext4 file system, or on a loop device over a file in DIRECTORY.
# Usage: sh examples/quickstart.sh [DIRECTORY [DEVICE]]
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
dir=${1:-/var/tmp/cchv-quickstart}
device=${2:-}
build=${CCHV_BUILD:-$top/build}
name=quickstart-pg
image=quickstart-postgres
log=$dir/quickstart.log

fail()
{
	echo "quickstart: $*" >&2
	exit 1
}

now()
{
	date +%s%N
}

# seconds NANOSECONDS
seconds()
{
	printf '%6d.%03d s' $(($1 / 1000000000)) $(($1 / 1000000 % 1000))
}

# What apt says that it spent on downloads, in the part of the log from this byte on, in seconds. It says some of it twice.
downloaded()
{
	tail -c "+$(($1 + 1))" "$log" | sed -n 's/^Fetched \(.*\) (.*/\1/p' | uniq |
		awk '{ for (i = 1; i <= NF; i++) { if ($i ~ /^[0-9]+h$/) n += $i * 3600; if ($i ~ /^[0-9]+min$/) n += $i * 60
			if ($i ~ /^[0-9]+s$/) n += $i } } END { print n + 0 }'
}

# stage NAME COMMAND...: run it, its output into the log, and say what it took
stage()
{
	label=$1
	shift
	printf '%-48s' "$label"
	from=$(wc -c <"$log")
	start=$(now)
	if ! "$@" >>"$log" 2>&1; then
		echo failed
		tail -n 15 "$log" >&2
		fail "'$label' failed; all output is in $log"
	fi
	seconds $(($(now) - start))
	spent=$(downloaded "$from")
	[ "$spent" = 0 ] || printf ', %d s of it for downloads' "$spent"
	echo
}

cchv()
{
	"$build/examples/cli/cchv" --state-dir "$dir/state" --runtime-dir "$dir/run" "$@"
}

build_all()
{
	[ -f "$build/build.ninja" ] || meson setup "$build" "$top" || return 1
	ninja -C "$build" programs
}

get_kernel()
{
	sh "$top/guest/kernel-package.sh" "$build/guest/kernel"
}

make_image()
{
	cchv image ls --format json | grep -q "\"Name\":\"$image\"" && return 0
	sh "$here/mkimage-postgres.sh" "$dir/rootfs" && cchv image import "dir:$dir/rootfs" --name "$image"
}

ready='database system is ready to accept connections'

# PostgreSQL says in its log when it takes connections: wait for the line number COUNT of that kind, without polling. Not by
# awk, which may be one that reads ahead.
wait_ready()
{
	[ "$(cchv logs -f "$name" 2>&1 | grep -m "$1" -c "$ready")" = "$1" ]
}

times_ready()
{
	cchv logs "$name" 2>&1 | grep -c "$ready" || :
}

# The loop device of an earlier run, which the database may still be on, or a new one.
find_device()
{
	[ -z "$device" ] || return 0
	[ -e "$dir/pgdata.img" ] || truncate -s 2G "$dir/pgdata.img"
	device=$(losetup -n -O NAME -j "$dir/pgdata.img" | head -n 1)
	[ -n "$device" ] || device=$(losetup -f --show "$dir/pgdata.img")
}

# What has anything else on it than ext4 is not ours to overwrite.
make_file_system()
{
	[ -b "$device" ] || { echo "'$device' is no block device"; return 1; }
	type=$(blkid -p -o value -s TYPE "$device") || type=
	case $type in
	ext4) ;;
	'')	table=$(blkid -p -o value -s PTTYPE "$device") || table=
		[ -z "$table" ] || { echo "'$device' has a partition table"; return 1; }
		mkfs.ext4 -q "$device" ;;
	*)	echo "'$device' has a file system of type $type"; return 1 ;;
	esac
}

first_start()
{
	cchv run -d --name "$name" --cpus 2 --memory 512m --disk "$device:/var/lib/postgresql/data" \
		--stop-signal INT "$image" /usr/local/bin/start-postgres && wait_ready 1
}

again()
{
	before=$(times_ready)
	cchv start "$name" && wait_ready $((before + 1))
}

inside()
{
	cchv exec -u postgres "$name" "$@"
}

[ "$(id -u)" = 0 ] || fail "it must run as root: it installs packages and sets up a loop device"
[ -r /etc/debian_version ] || fail "this is not Debian"
mkdir -p "$dir"
: >"$log"
begin=$(now)

stage "packages" sh "$here/install-debian.sh" build run image
stage "build" build_all
stage "guest kernel" get_kernel
stage "image with PostgreSQL" make_image
cchv rm -f "$name" >>"$log" 2>&1 || :
find_device || fail "no block device for the data: give one, after DIRECTORY"
stage "file system for the data on $device" make_file_system
stage "start: VM, container, database ready" first_start
cchv inspect "$name" >"$dir/inspect.json"
bytes=$(sed -n 's/^ *"MemoryBytes": \([0-9]*\).*/\1/p' "$dir/inspect.json" | head -n 1)
cpus=$(sed -n 's/^ *"VCPUs": \([0-9]*\).*/\1/p' "$dir/inspect.json" | head -n 1)
echo "  the VM as its VMM reports it: $((bytes / 1048576)) MiB, $cpus vCPUs"
stage "pgbench -i (scale 1)" inside pgbench -q -i -s 1 -h /run/postgresql postgres
stage "pgbench, 2 clients, 5 s, over a Unix socket" inside pgbench -c 2 -T 5 -h /run/postgresql postgres
sed -n 's/^\(tps = [0-9.]*\).*/  \1/p' "$log" | tail -n 1
rows=$(inside psql -h /run/postgresql -tAc 'select count(*) from pgbench_history' postgres)
stage "stop" cchv stop -t 60 "$name"
stage "start again" again
kept=$(inside psql -h /run/postgresql -tAc 'select count(*) from pgbench_history' postgres)
[ "$rows" = "$kept" ] || fail "the table had $rows rows before the stop and has $kept now"
echo "  pgbench_history has its $kept rows"
printf '%-48s' "all of it"
seconds $(($(now) - begin))
spent=$(downloaded 0)
[ "$spent" = 0 ] || printf ', %d s of it for downloads' "$spent"
echo
echo "Its data is on $device.$([ -n "${2:-}" ] || echo " When the database is gone for good: losetup -d $device")"
echo "The database runs on: $build/examples/cli/cchv --state-dir $dir/state --runtime-dir $dir/run ps"
