#!/usr/bin/env bash
# Builds a Debian package of switchmark for this release and architecture, without root:
#   tools/deb.sh [FOLDER]        by default build/deb; prints the path of the package
# /usr/lib/switchmark is a virtual environment for the Python of the system (tools/tree.py), because
# the releases have older versions of some Python packages. Manual pages and completions come from
# the command itself. `make setup` must have run. DEBFULLNAME and DEBEMAIL name the maintainer.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { printf 'deb: error: %s\n' "$1" >&2; exit 3; }

out=${1:-build/deb}
python=.venv/bin/python
name=switchmark
version=$($python -c 'import switchmark; print(switchmark.__version__)')
architecture=$(dpkg --print-architecture)
date=$(git log -1 --format=%cD)
export SOURCE_DATE_EPOCH; SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
root=$out/root doc=$out/root/usr/share/doc/$name
folder=/usr/lib/$name
maintainer="${DEBFULLNAME:-The switchmark authors} <${DEBEMAIL:-switchmark@localhost.localdomain}>"
for tool in dpkg-deb dpkg-shlibdeps strip; do
	command -v $tool >/dev/null || die "$tool is missing: apt-get install dpkg-dev binutils"
done

rm -rf "$out"
mkdir -p "$root/DEBIAN" "$doc" "$root/usr/bin"
umask 022

# --- the programs ----------------------------------------------------------------------------

$python tools/tree.py "$root" $folder
ln -s ../lib/$name/bin/$name "$root/usr/bin/$name"
# The libraries of wheels stay as they are: strip would break those that were patched for their wheel.
strip --strip-unneeded "$root$folder"/bin/switchmark-*
find "$root$folder" -type d -empty -delete

# --- manual pages, completions, documents -------------------------------------------------------

compressed() { gzip -9 --no-name --stdout; }
$python tools/manual.py "$out/man"
mkdir -p "$root/usr/share/man/man1"
for page in "$out"/man/*.1; do
	compressed <"$page" >"$root/usr/share/man/man1/${page##*/}.gz"
done
while read -r shell place; do
	mkdir -p "$root/usr/share/${place%/*}"
	$python -m $name completion "$shell" >"$root/usr/share/$place"
done <<-END
	bash bash-completion/completions/$name
	zsh zsh/vendor-completions/_$name
	fish fish/vendor_completions.d/$name.fish
END
cp -r campaigns "$doc/examples"
compressed <CHANGELOG.md >"$doc/NEWS.gz"
compressed <<-END >"$doc/changelog.gz"
	$name ($version) unstable; urgency=medium

	  * The changes are in NEWS.gz.

	 -- $maintainer  $date
END
$python tools/deb/copyright.py "$root$folder" >"$doc/copyright"
install -D -m644 tools/deb/lintian-overrides "$root/usr/share/lintian/overrides/$name"

# --- the package ----------------------------------------------------------------------------------

mkdir -p "$out/debian"
printf 'Source: %s\n\nPackage: %s\nArchitecture: any\n' $name $name >"$out/debian/control"
mapfile -t programs < <(find "$root$folder" -type f \( -path '*/bin/switchmark-*' -o -name '*.so*' \) ! -path '*.libs/*' |
	sed "s|^$out/||")
libraries=$(cd "$out" && dpkg-shlibdeps --ignore-missing-info -O "${programs[@]/#/-e}" 2>shlibdeps.log |
	sed -n 's/^shlibs:Depends=//p') || die "dpkg-shlibdeps failed: $(tail -n 1 "$out/shlibdeps.log")"
minor=$($python -c 'import sys; print(sys.version_info[1])')
cat >"$root/DEBIAN/control" <<-END
	Package: $name
	Version: $version
	Architecture: $architecture
	Maintainer: $maintainer
	Section: net
	Priority: optional
	Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
	Depends: python3 (>= 3.$minor), python3 (<< 3.$((minor + 1))), iproute2, ethtool, procps, util-linux (>= 2.34), $libraries
	Recommends: kmod, tcpdump, openvswitch-switch
	Suggests: dpdk-dev, openvswitch-switch-dpdk, lxc, podman, docker.io, qemu-system-x86, stress-ng
	Description: benchmark for virtual switches
	 switchmark builds a topology, starts a virtual switch and network functions,
	 offers traffic, and says how fast, how late, how lossy and how costly the
	 switch is, and which part was the bottleneck.
	 .
	 It measures the bridges of the kernel, Open vSwitch, VPP, DPDK programs and
	 others, with functions in namespaces, containers and virtual machines.
END
install -m755 tools/deb/prerm "$root/DEBIAN/prerm"
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
chmod -R u+rwX,go+rX,go-w "$root"
package=$out/${name}_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >&2
echo "$package"
