#!/usr/bin/env bash
# Builds container images of switchmark from the packages of this Debian or Ubuntu release, as root:
#   tools/image.sh [small|full]...     by default both
# small: for the switches of the kernel, at most 250 MB. full: also Open vSwitch, DPDK and testpmd.
# Writes build/image/switchmark-VERSION[-full].tar, which `podman load -i` and `docker load -i` read.
# The package of tools/deb.sh, or DEB=FILE, is installed in a new root; no container engine is needed.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'image: %s\n' "$*" >&2; }
die() { say "error: $1"; exit "${2:-3}"; }
source tools/debian-root.sh

[ "$(id -u)" -eq 0 ] || die "a root file system takes root: sudo make image" 2
[ $# -gt 0 ] || set -- small full
out=build/image
small=(python3-minimal kmod tcpdump)
full=(openvswitch-switch openvswitch-switch-dpdk dpdk dpdk-dev librte-meta-bus librte-meta-mempool librte-meta-net)
limit_mb=250

depends() # PACKAGE.deb: the names of what it depends on
{
	dpkg-deb --field "$1" Depends | tr ',' '\n' | sed 's/(.*)//; s/|.*//; s/ //g'
}

package=${DEB:-$(tools/deb.sh build/image/deb)}
version=$(dpkg-deb --field "$package" Version)
export SOURCE_DATE_EPOCH; SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
mkdir -p $out
for kind in "$@"; do
	case $kind in
	small) suffix='' include=("${small[@]}") ;;
	full) suffix=-full include=("${small[@]}" "${full[@]}") ;;
	*) die "there is no image '$kind': small or full" 2 ;;
	esac
	mapfile -t -O ${#include[@]} include < <(depends "$package")
	root=$(mktemp -d "${TMPDIR:-/var/tmp}/switchmark-image.XXXXXX")
	trap 'rm -rf --one-file-system "$root"' EXIT
	say "$kind: a root with $(tr ' ' ',' <<<"${include[*]}")"
	make_debian "$root" "$(tr ' ' ',' <<<"${include[*]}")" \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' ||
		die "mmdebstrap cannot make the root"
	cp "$package" "$root/switchmark.deb"
	chroot "$root" dpkg --install /switchmark.deb >&2
	rm -f "$root/switchmark.deb" "$root"/var/log/*.log "$root/var/cache/ldconfig/aux-cache"
	mkdir -p "$root/work"
	archive=$out/switchmark-$version$suffix.tar
	.venv/bin/python tools/oci.py "$root" "$archive" "switchmark:$version$suffix"
	rm -rf --one-file-system "$root"
	trap - EXIT
	size=$(($(stat -c %s "$archive") / 1000000))
	say "$archive: $size MB"
	[ "$kind" != small ] || [ $size -le $limit_mb ] || die "that is more than $limit_mb MB" 1
	echo "$archive"
done
