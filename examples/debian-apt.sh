# SPDX-License-Identifier: Apache-2.0
# Functions for the scripts that take packages from the Debian mirror that this machine is configured for; they read it by
#   . examples/debian-apt.sh
# Enters: apt's configuration. Leaves: the mirror's address, or apt with a sources list of our own: the machine's Debian suites
# and, where wanted, the backports of its release, which differ from what is configured by the suite alone. Its lists are our
# own too, so that the machine's sources and lists stay as they are.

# Where these lists are kept, for the next script that wants them.
if [ "$(id -u)" = 0 ]; then
	debian_apt_dir=/var/cache/cchv-apt
else
	debian_apt_dir=${XDG_CACHE_HOME:-$HOME/.cache}/cchv-apt
fi

debian_codename()
{
	(. /etc/os-release && echo "$VERSION_CODENAME")
}

# The address of this release's main suite; nothing where apt knows none.
debian_mirror()
{
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(CODENAME)' 'Created-By: Packages' |
		awk -v r="$(debian_codename)" '$2 == r || $3 == r { print $1; exit }'
}

# debian_run LABEL COMMAND...: what it says is only told when it failed; how much apt fetched, and how long that took, always.
debian_run()
{
	debian_label=$1
	debian_log=$(mktemp) || return 1
	shift
	debian_status=0
	"$@" >"$debian_log" 2>&1 </dev/null || debian_status=$?
	if [ $debian_status = 0 ]; then
		grep '^Fetched ' "$debian_log" || :
	else
		tail -n 30 "$debian_log" >&2
		echo "$debian_label failed" >&2
	fi
	rm -f "$debian_log"
	return $debian_status
}

# debian_apt PROGRAM ARGUMENT...: apt-get or apt-cache with our lists.
debian_apt()
{
	debian_program=$1
	shift
	"$debian_program" -o Dir::Etc::SourceList="$debian_apt_dir/sources.list" -o Dir::Etc::SourceParts=- \
		-o Dir::State::Lists="$debian_apt_dir/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= "$@"
}

# Write the sources list: "deb" lines of the configured suites that say they are Debian, and the backports of this release.
debian_sources()
{
	debian_key=/usr/share/keyrings/debian-archive-keyring.gpg
	debian_signed=
	[ ! -r $debian_key ] || debian_signed="[signed-by=$debian_key] "
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' 'Created-By: Packages' |
		awk -v s="$debian_signed" '$4 == "Debian" && !seen[$1 $2 $3]++ { print "deb " s $1 " " $2 " " $3 }'
	[ "${1-}" != backports ] || echo "deb $debian_signed$(debian_mirror) $(debian_codename)-backports main"
}

# debian_update [backports]: make our lists, or leave those of the last hour. What the machine's lists have is not fetched again.
debian_update()
{
	[ -n "$(debian_mirror)" ] || {
		echo "apt knows no mirror of $(debian_codename): is one configured, and did 'apt-get update' work?" >&2
		return 1
	}
	mkdir -p "$debian_apt_dir/lists/partial"
	debian_sources "$@" | sort -u >"$debian_apt_dir/sources.list.new"
	if cmp -s "$debian_apt_dir/sources.list.new" "$debian_apt_dir/sources.list" &&
		[ -n "$(find "$debian_apt_dir/updated" -mmin -60 2>/dev/null)" ]; then
		rm "$debian_apt_dir/sources.list.new"
		return 0
	fi
	mv "$debian_apt_dir/sources.list.new" "$debian_apt_dir/sources.list"
	rm -f "$debian_apt_dir/updated"
	find /var/lib/apt/lists -maxdepth 1 -type f -name '*_dists_*' -exec cp -pu {} "$debian_apt_dir/lists/" \;
	debian_run "apt-get update" debian_apt apt-get -o APT::Update::Error-Mode=any update -q || return 1
	: >"$debian_apt_dir/updated"
}

# debian_newest META PATTERN [SUITE]: the newest real package behind a meta package, by the lists of debian_update.
debian_newest()
{
	debian_apt apt-cache ${3:+-o "APT::Default-Release=$3"} depends --no-recommends --no-suggests "$1" |
		sed -n "s/^ *Depends: \\($2\\)\$/\\1/p" | sort -V | tail -n 1
}
