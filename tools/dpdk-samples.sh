#!/usr/bin/env bash
# Puts DPDK's sample programs dpdk-skeleton (basicfwd) and dpdk-l2fwd, which no binary package
# has, into the folder BIN: those of the source package that the installed libdpdk-dev was built
# from, linked with its shared libraries. They are made once for each version, in a cache.
# Progress is on stdout, the tools' output on stderr; on failure, the last line is the reason.
set -euo pipefail

[ $# -eq 1 ] || { printf 'usage: %s BIN\n' "$0" >&2; exit 2; }
export LC_ALL=C # what apt says is looked through
bin=$1
programs=(dpdk-skeleton dpdk-l2fwd)

source "$(dirname "$0")/messages.sh"
die() { printf '%s\n' "$*" >&2; exit 1; }

# --- the source package ----------------------------------------------------------------------

private_apt() # Settings of an apt that reads the host's sources as deb-src and writes to $work.
{
	local list='' parts='' file name
	eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
	mkdir -p "$work"/{sources,cache,source} "$work"/lists/partial
	for file in "$list" "$parts"/*.list "$parts"/*.sources; do
		[ -r "$file" ] || continue
		name=$(basename "$file")
		[ "$file" != "$list" ] || name=sources.list
		case $name in
		*.sources) sed -E 's/^types:.*/Types: deb-src/I' "$file" ;;
		*) sed -nE 's/^[[:space:]]*deb(-src)?[[:space:]]/deb-src /p' "$file" | sort -u ;;
		esac >>"$work/sources/$name"
	done
	# The hooks of the host's own `apt-get update` are not for this one.
	cat >"$work/apt.conf" <<-END
		Dir::Etc::sourcelist "/dev/null";
		Dir::Etc::sourceparts "$work/sources";
		Dir::State::lists "$work/lists";
		Dir::Cache "$work/cache";
		Acquire::Retries "1";
		#clear APT::Update::Pre-Invoke;
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
	END
}

nearest() # VERSION <versions: it, or the next older of its upstream series, or the next newer
{
	local version best='' series
	series=$(grep -oE '^[0-9]+\.[0-9]+' <<<"$1")
	while read -r version; do
		[[ $version =~ ^${series//./\\.}[^0-9] ]] || continue
		if [ -z "$best" ] || dpkg --compare-versions "$version" le "$1"; then
			best=$version
		fi
	done < <(sort -uV)
	printf '%s\n' "$best"
}

unpack_source() # VERSION: of the source package dpdk, or the nearest, into $work/source/dpdk
{
	local found log=$work/apt.log reason
	private_apt
	# That one of the host's sources is out of reach need not matter.
	apt-get -c "$work/apt.conf" --quiet update >"$log" 2>&1 || true
	found=$({ apt-cache -c "$work/apt.conf" showsrc --only-source dpdk 2>>"$log" || true; } |
		sed -n 's/^Version: //p' | nearest "$1")
	cat "$log" >&2
	reason=$(apt_said <"$log")
	[ -n "$found" ] || die "apt-get finds no source package of DPDK $1: ${reason:-none of its sources has it}"
	if [ "$found" = "$1" ]; then
		say "DPDK's sample programs: from the source package dpdk $found"
	else
		say "DPDK's sample programs: from the source package dpdk $found, as $1 is not to be had"
	fi
	cd "$work/source"
	apt-get -c "$work/apt.conf" --quiet source --only-source --download-only "dpdk=$found" >&2 ||
		die "apt-get could not download the source package dpdk $found"
	dpkg-source --extract ./*.dsc dpdk >&2 || die "dpkg-source could not unpack dpdk $found"
	cd - >/dev/null
}

# --- the programs ----------------------------------------------------------------------------

build() # SAMPLE APP PROGRAM: of $work/source/dpdk, into $work/made
{
	local folder=$work/source/dpdk/examples/$1
	# The flags and job server of a make above are not this one's.
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -C "$folder" shared >&2 ||
		die "DPDK's sample program $1 could not be built"
	install -D -m755 "$folder/build/$2-shared" "$work/made/$3" >&2 ||
		die "DPDK's sample program $1 is not where its Makefile used to put it"
}

complete() # FOLDER: holds all of the programs
{
	local program
	for program in "${programs[@]}"; do
		[ -x "$1/$program" ] || return 1
	done
}

make_programs() # SOURCE_VERSION FOLDER: all or nothing
{
	local tool
	for tool in apt-get dpkg-source make pkg-config cc; do
		command -v $tool >/dev/null || die "there is no $tool"
	done
	work=$(mktemp -d -t dpdk-samples.XXXXXXXX)
	trap 'rm -rf "$work" "$made.new"' EXIT
	chmod 755 "$work" # apt downloads as another user
	unpack_source "$1"
	build skeleton basicfwd dpdk-skeleton
	build l2fwd l2fwd dpdk-l2fwd
	# One file system may end and another begin on the way to the cache: copy, then rename.
	rm -rf "$2" "$2.new"
	cp -r "$work/made" "$2.new"
	mv -T "$2.new" "$2"
}

read -r status version source < <(dpkg-query --show \
	--showformat '${db:Status-Status} ${Version} ${source:Version}\n' libdpdk-dev 2>/dev/null) || true
[ "${status:-}" = installed ] || die "libdpdk-dev is not installed"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/switchmark
made=$cache/dpdk-$version
if ! complete "$made"; then
	mkdir -p "$cache"
	exec 8>"$cache/lock"
	flock 8
	# Another setup may have made them meanwhile.
	complete "$made" || make_programs "$source" "$made" </dev/null
	exec 8>&-
fi
for program in "${programs[@]}"; do
	cmp -s "$made/$program" "$bin/$program" || install -m755 "$made/$program" "$bin/$program"
done
