#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make a directory with a root file system of Debian and PostgreSQL, from the machine's own mirror and release, as root.
# Usage: sh examples/mkimage-postgres.sh DIRECTORY     (it must not exist, or be one that this script made: then it is kept)
# /usr/local/bin/start-postgres in it runs the server with its data in /var/lib/postgresql/data, and makes them the first time.
set -eu

fail()
{
	echo "mkimage-postgres.sh: $*" >&2
	exit 1
}

[ $# = 1 ] || fail "usage: mkimage-postgres.sh DIRECTORY"
target=$1
[ -f "$target/usr/local/bin/start-postgres" ] && exit 0
[ -e "$target" ] && fail "'$target' exists"
command -v debootstrap >/dev/null || fail "debootstrap is not installed"

. /etc/os-release
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
	awk -v r="$VERSION_CODENAME" '$2 == r { print $1; exit }')
[ -n "$mirror" ] || fail "apt has no mirror of $VERSION_CODENAME configured"

# Under another name until it is whole, so that a run that was cut short leaves nothing that looks done.
work=$target.tmp
rm -rf --one-file-system "$work"
mkdir -p "$work"
debootstrap --variant=minbase --include=postgresql,postgresql-contrib "$VERSION_CODENAME" "$work" "$mirror"

# What a running database does not need: half of the size.
rm -rf "$work"/var/cache/apt/archives/*.deb "$work"/var/lib/apt/lists/* "$work"/usr/share/doc/* "$work"/usr/share/man/* \
	"$work"/usr/share/locale/* "$work"/var/lib/postgresql/*/main "$work"/etc/postgresql/*/main "$work"/var/log/*.log

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
