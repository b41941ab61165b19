# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# What the scripts of the rig share: places, messages, and an apt of their own.

# shellcheck disable=SC2034	# some are used by those who source this
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ringfence
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# The release that the root image is made of and that ringfence is built on.
release=bookworm
# Where a newer kernel than the release's own is looked for, first hit wins.
newer_suites=(forky sid)

say()
{
	printf 'vm: %s\n' "$*" >&2
}

fail()
{
	say "$*"
	exit 125
}

# need PACKAGE=PROGRAM...: names the packages of the programs that are missing.
need()
{
	local pair missing=()

	for pair; do
		PATH=$PATH:/usr/sbin:/sbin type "${pair#*=}" >/dev/null 2>&1 ||
			missing+=("${pair%%=*}")
	done
	[[ -e $keyring ]] || missing+=(debian-archive-keyring)
	[[ ${#missing[@]} -eq 0 ]] ||
		fail "missing Debian packages: ${missing[*]} (make deps installs them)"
}

# lock NAME: one builder at a time, others wait here and then find its result.
lock()
{
	mkdir -p "$cache"
	exec 9>"$cache/$1.lock"
	flock 9
}

# archive_uri SUITE: the address of the archive with SUITE, as the machine's own
# apt sources have it. Other suites of the same mirror are found beside them.
archive_uri()
{
	local suite=$1 uri

	uri=$(apt_targets | awk -v s="$suite" '$2 == s { print $1; exit }')
	if [[ -z $uri ]]; then
		# Any suite of the main archive tells the mirror.
		uri=$(apt_targets | awk '$1 ~ /\/debian\/?$/ { print $1; exit }')
		[[ -n $uri ]] || fail "no Debian archive in this machine's apt sources"
		[[ $suite != *-security ]] || uri=${uri%/}-security
	fi
	printf '%s\n' "${uri%/}"
}

apt_targets()
{
	# shellcheck disable=SC2016	# apt expands these
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' \
		'Created-By: Packages' | awk '$3 == "main" { print $1, $2 }'
}

# apt_sources SUITE...: lines for a sources.list, with the keyring named.
apt_sources()
{
	local suite uri

	for suite; do
		uri=$(archive_uri "$suite") || exit
		printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$uri" "$suite"
	done
}

# apt_acquire: how this machine fetches (proxy and the like), as an apt.conf.
apt_acquire()
{
	apt-config dump Acquire | grep -v '^Acquire::IndexTargets'
	printf 'Acquire::Languages "none";\n'
}

# own_apt NAME SUITE...: an apt with state, cache and sources of its own; the
# machine's stays untouched. Exports APT_CONFIG and fetches the indexes.
own_apt()
{
	local dir=$cache/apt/$1
	shift

	mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
	apt_sources "$@" >"$dir/sources.list" || exit
	{
		apt_acquire
		cat <<-CONF
			Dir::State "$dir";
			Dir::State::lists "$dir/lists";
			Dir::State::status "/dev/null";
			Dir::Cache "$dir/cache";
			Dir::Etc::sourcelist "$dir/sources.list";
			Dir::Etc::sourceparts "/dev/null";
			Dir::Etc::parts "/dev/null";
			Dir::Etc::main "/dev/null";
			APT::Sandbox::User "$(id -un)";
		CONF
	} >"$dir/apt.conf"
	export APT_CONFIG=$dir/apt.conf
	say "reading the package indexes of $*"
	apt-get -qq update >&2 || fail "the package indexes of $* cannot be read"
}

# close_fds: mmdebstrap hands descriptors to dash, which knows only those of one
# digit; so that its own are small, it gets none of make's or of a lock.
close_fds()
{
	local fd

	for fd in /proc/"$BASHPID"/fd/*; do
		fd=${fd##*/}
		[[ $fd -le 2 || $fd -ge 200 ]] || exec {fd}>&-
	done
}
