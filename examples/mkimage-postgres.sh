#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make a directory with a root file system of Debian and PostgreSQL, from the machine's own mirror and release, as root.
# Usage: sh examples/mkimage-postgres.sh DIRECTORY     (it must not exist, or be one that this script made: then it is kept)
# /usr/local/bin/start-postgres in it runs the server with its data in /var/lib/postgresql/data, and makes them the first time.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/debian-apt.sh"

fail()
{
	echo "mkimage-postgres.sh: $*" >&2
	exit 1
}

[ $# = 1 ] || fail "usage: mkimage-postgres.sh DIRECTORY"
target=$1
[ -f "$target/usr/local/bin/start-postgres" ] && exit 0
[ -e "$target" ] && fail "'$target' exists"
command -v mmdebstrap >/dev/null || fail "mmdebstrap is not installed"
mirror=$(debian_mirror)
[ -n "$mirror" ] || fail "apt has no mirror of $(debian_codename) configured"

# Under another name until it is whole, so that a run that was cut short leaves nothing that looks done.
work=$target.tmp
rm -rf --one-file-system "$work"

# Without what a running database does not need: two thirds of the size, a third of it the compiler for queries (jit).
set --
for path in '/usr/share/doc/*' '/usr/share/man/*' '/usr/share/locale/*' '/usr/share/info/*' '/usr/share/i18n/*' \
	'/usr/lib/*/libLLVM*' '/usr/lib/*/libz3*' '/usr/lib/llvm-*' '/usr/lib/postgresql/*/lib/llvmjit*' '/usr/lib/postgresql/*/lib/bitcode/*'; do
	set -- "$@" "--dpkgopt=path-exclude=$path"
done
# Nor the database that the package makes when it is installed: it could not be on the data disk.
settings=etc/postgresql-common/createcluster.conf
mmdebstrap --verbose --essential-hook="mkdir -p \"\$1/${settings%/*}\" && echo create_main_cluster=false >\"\$1/$settings\"" \
	--dpkgopt=force-confold --mode=root --variant=minbase --dpkgopt=force-unsafe-io "$@" --include=postgresql \
	"$(debian_codename)" "$work" "$mirror"
rm -f "$work"/var/log/*.log

cat >"$work/usr/local/bin/start-postgres" <<'START'
#!/bin/sh
# PostgreSQL in the foreground, on a Unix socket alone, its data on whatever is mounted at /var/lib/postgresql/data.
set -eu
data=/var/lib/postgresql/data/main
bin=$(echo /usr/lib/postgresql/*/bin)
mkdir -p /run/postgresql
chown postgres:postgres /run/postgresql /var/lib/postgresql/data
as_postgres="setpriv --reuid postgres --regid postgres --init-groups --"
[ -f "$data/PG_VERSION" ] || $as_postgres "$bin/initdb" -D "$data" --auth trust >/dev/null
exec $as_postgres "$bin/postgres" -D "$data" -k /run/postgresql -c listen_addresses=
START
chmod 755 "$work/usr/local/bin/start-postgres"
# The programs themselves rather than Debian's wrapper, which is a perl script that looks for clusters.
for program in "$work"/usr/lib/postgresql/*/bin/*; do
	ln -sf "${program#"$work"}" "$work/usr/local/bin/"
done
mv "$work" "$target"
