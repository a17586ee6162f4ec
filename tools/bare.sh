#!/usr/bin/env bash
# Runs commands of this project as on a fresh machine: a root file system of this Debian or Ubuntu
# release with only make, git and certificates, and a clone of HEAD. It shows missing install steps
# that an older machine would hide.
#   tools/bare.sh [--root DIR] [COMMAND...]    by default `make demo`, then `make test`
# Needs root and mmdebstrap, which is installed if it is missing. DIR is kept and reused; without
# --root, the root is removed at the end. Messages go to stderr. The exit code is that of the first
# command that fails, or 3 if the root cannot be created.
#
# Files, mounts, processes, /run, /tmp, /dev/shm and System V memory are separate from the host. The
# network interfaces (for downloads), hugepages, control groups and sysctls are those of the host. A
# run undoes its changes of these. This script removes control groups and interfaces that a killed
# run leaves, and reports hugepages. Do not measure anything at the same time.
set -euo pipefail

say() { printf 'bare: %s\n' "$*" >&2; }
die() { say "$1"; exit "${2:-3}"; }

top=$(cd "$(dirname "$0")/.." && pwd)
place=/root/switchmark # in the root: a home that only its owner may enter, as usual
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/switchmark/bare
root=''
if [ "${1:-}" = --root ]; then
	[ $# -ge 2 ] || die 'usage: tools/bare.sh [--root DIR] [COMMAND...]' 2
	root=$(realpath --canonicalize-missing "$2")
	[ "$root" != / ] || die "/ is the root of this machine" 2
	shift 2
fi
[ $# -gt 0 ] || set -- 'make demo' 'make test'

# --- the root --------------------------------------------------------------------------------

ours_or_new() # Only an empty folder, or a root that this script made, is used.
{
	[ ! -e "$root" ] || [ -e "$root/etc/switchmark-bare" ] || [ -z "$(ls -A "$root")" ]
}

make_root() # An incomplete root does not count.
{
	local settings=$1/etc/apt/apt.conf.d
	say "a bare $PRETTY_NAME, in $1"
	make_debian "$1" ca-certificates,make,git || die "mmdebstrap cannot make a root"
	# Packages that were downloaded once are not downloaded for the next root again.
	printf '%s\n' 'Dir::Cache::archives "/var/cache/switchmark-bare/";' \
		'APT::Keep-Downloaded-Packages "true";' >"$settings/99bare"
	mkdir -p "$1/var/cache/switchmark-bare"
	touch "$1/etc/switchmark-bare"
}

copy_from_host() # PATH: a file or folder, links in it followed; what is not there is passed over
{
	[ -e "$1" ] || return 0
	mkdir -p "$root$(dirname "$1")"
	cp -rLT --remove-destination "$1" "$root$1"
}

how_the_host_reaches_packages() # Its names, certificates and settings of pip; into $environment
{
	local name path
	for path in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs; do
		copy_from_host "$path"
	done
	for path in "${HOME:-/root}"/.{config/pip,pip}/pip.conf; do
		[ ! -e "$path" ] || install -D -m600 "$path" "$root/root/.config/pip/pip.conf"
	done
	environment=(HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}"
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
	for name in $(compgen -e); do
		case $name in
		CI | PIP_* | SSL_CERT_* | REQUESTS_CA_BUNDLE | CURL_CA_BUNDLE | GIT_SSL_* | *_proxy | *_PROXY)
			environment+=("$name=${!name}")
			case ${!name} in /*) copy_from_host "${!name}" ;; esac
			;;
		esac
	done
}

clone()
{
	[ -z "$(git -C "$top" status --porcelain 2>/dev/null)" ] || say "what is not committed is left out"
	rm -rf "${root:?}$place"
	git clone --quiet --no-hardlinks "$top" "$root$place" || die "HEAD of $top cannot be cloned"
}

# --- the commands ----------------------------------------------------------------------------

# Its first process is the first of its namespace: all others end with it.
# shellcheck disable=SC2016 # expanded in there
inside='
set -euo pipefail
root=$1 place=$2 packages=$3
shift 3
mount --rbind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
for each in run:755 tmp:1777 dev/shm:1777; do
	mkdir -p "$root/${each%:*}"
	mount -t tmpfs -o "mode=${each#*:}" tmpfs "$root/${each%:*}"
done
mkdir -m 1777 "$root/run/lock"
# Maps and programs that are pinned, and files of hugepages, are of this root alone.
[ ! -d "$root/sys/fs/bpf" ] || mount -t bpf bpf "$root/sys/fs/bpf"
[ ! -d "$root/dev/hugepages" ] || mount -t hugetlbfs hugetlbfs "$root/dev/hugepages"
mount --bind "$packages" "$root/var/cache/switchmark-bare"
# No chroot: what enters this mount namespace by the number of a process lands in the root too.
cd "$root"
mkdir -p .host
pivot_root . .host
umount -l /.host
rmdir /.host
cd "$place"
for command; do
	printf "bare: %s\n" "$command" >&2
	SECONDS=0 status=0
	bash -c "$command" </dev/null || status=$?
	printf "bare: %s: status %d after %d s\n" "$command" "$status" "$SECONDS" >&2
	[ "$status" -eq 0 ] || break
done
[ ! -x .venv/bin/switchmark ] || .venv/bin/switchmark clean >&2 || true
exit "$status"
'

left_in_the_kernel() # Of runs: control groups, the inner ones first, and interfaces of the host.
{
	find /sys/fs/cgroup -depth -type d -regex '.*/sm[0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[^/]*' 2>/dev/null || true
	ip -o link 2>/dev/null | grep -oP '^\d+: \Ksm[0-9a-f]{4}-[^:@]*' || true
}

take_back() # What is left of runs in there, but not of those that the host knows of
{
	local what run pages
	while read -r what; do
		run=${what##*/}
		run=${run%%-*}
		[ ! -e "/run/switchmark/$run" ] || continue
		say "left by run $run, now removed: $what"
		case $what in
		/*) rmdir "$what" || true ;;
		*) ip link del "$what" || true ;;
		esac
	done < <(left_in_the_kernel | grep -vxFf "$work/left" || true)
	pages=$(cat $hugepages)
	# They may be those of somebody else's run.
	[ "$pages" = "$pages_before" ] ||
		say "hugepages: $pages_before before, $pages now; to have so many again: sysctl vm.nr_hugepages=$pages_before"
}

finish()
{
	[ ! -e "$work/left" ] || take_back
	rm -rf --one-file-system "$work"
}

[ "$(id -u)" -eq 0 ] || die "only root can make one: sudo make bare"
source "$top/tools/debian-root.sh"
[ -n "${VERSION_CODENAME:-}" ] && command -v apt-get >/dev/null || die "this is neither Debian nor Ubuntu"
unshare --mount --pid --ipc --uts --fork true || die "this root may not make namespaces"
work=$(mktemp -d /var/tmp/switchmark-bare.XXXXXXXX)
trap finish EXIT
[ -n "$root" ] || root=$work/root
ours_or_new || die "$root is there, and no root of this script's" 2
if [ ! -e "$root/etc/switchmark-bare" ]; then make_root "$root"; fi
how_the_host_reaches_packages
clone
mkdir -p "$cache"
hugepages=/proc/sys/vm/nr_hugepages
pages_before=$(cat $hugepages)
left_in_the_kernel >"$work/left"
# When this script dies all of it does.
setpriv --pdeathsig KILL env -i "${environment[@]}" unshare --mount --pid --ipc --uts \
	--fork --kill-child=KILL --propagation private \
	bash -c "$inside" bare "$root" "$place" "$cache" "$@"
