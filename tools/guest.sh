#!/usr/bin/env bash
# Builds the guest of the environment `vm` in the folder GUEST: `kernel`, from Debian's
# linux-image-amd64, and `initramfs`, with busybox, ip, ethtool, the modules below, the traffic
# program PROGRAM, the agent and the other programs of its folder, and dpdk-testpmd if it is
# installed. The kernel's package is downloaded once per version; the image is rebuilt when one of
# its inputs changes. The kernel of the host is neither used nor changed. Progress is on stdout, the
# output of tools on stderr; on failure, the last line is the reason.
set -euo pipefail

[ $# -eq 2 ] || { printf 'usage: %s PROGRAM GUEST\n' "$0" >&2; exit 2; }
export LC_ALL=C # the output of apt is parsed
program=$(realpath "$1")
# The agent, the tool, and the programs whose libraries were available.
beside=("$(dirname "$program")"/{switchmark-agent,switchmark-tool,switchmark-pcap-bridge,dpdk-l2fwd,dpdk-skeleton})
guest=$2
modules=(virtio_pci virtio_net virtio_console bridge veth tun uio_pci_generic)
drivers=(bus_pci bus_vdev mempool_ring net_virtio) # of DPDK, if the program has it

source "$(dirname "$0")/messages.sh"
source "$(dirname "$0")/kernel.sh"
die() { printf '%s\n' "$*" >&2; exit 1; }

# --- the kernel ------------------------------------------------------------------------------

kernel_package() # The package that linux-image-amd64 currently depends on.
{
	{ apt-cache depends --no-recommends --no-suggests linux-image-amd64 2>"$work/apt.log" || true; } |
		sed -n 's/^ *Depends: \(linux-image-[0-9].*-amd64\)$/\1/p' | head -n 1
}

unpack_kernel() # Of $package, into $kernel: all or nothing
{
	say "the guest's kernel: the Debian package $package"
	chmod 755 "$work" # apt downloads as another user
	(cd "$work" && apt-get --quiet download "$package" >"$work/apt.log" 2>&1) ||
		die "apt-get could not download $package: $(apt_said <"$work/apt.log")"
	dpkg -x "$work"/*.deb "$work/root" >&2 || die "dpkg could not unpack $package"
	rm -rf "$kernel" "$kernel.new"
	mkdir -p "$kernel.new"
	unpack_image "$work"/root/boot/vmlinuz-* "$kernel.new/vmlinux"
	copy_modules "$work/root" "$kernel.new" "${modules[@]}"
	mv -T "$kernel.new" "$kernel"
}

# --- the image -------------------------------------------------------------------------------

copy_as() # PLACE FILE: copies a file with its libraries into the image
{
	local library
	[ -e "$1" ] || install -D "$2" "$1"
	{ ldd "$2" 2>/dev/null | grep -oE '/[^ ]+' || true; } | while read -r library; do
		# What a program finds in the drivers' folder is loaded from there, needed or not.
		case $library in */dpdk/pmds-*) library=/lib/$multiarch/$(basename "$library") ;; esac
		[ -e "$image$library" ] || install -D "$library" "$image$library"
	done
}

copy() # FILE...: at the same path
{
	local file
	for file in "$@"; do
		copy_as "$image$file" "$file"
	done
}

copy_drivers() # Of DPDK: the EAL loads what it finds in this folder
{
	local name driver library
	for name in "${drivers[@]}"; do
		for driver in "/usr/lib/$multiarch"/dpdk/pmds-*/librte_"$name".so.*.*; do
			library=/lib/$multiarch/$(basename "${driver%.*}")
			copy "$library"
			mkdir -p "$image$(dirname "$driver")"
			# The same file as that which others are linked with, or it would be loaded twice.
			ln -s "$library" "$image$driver"
		done
	done
}

make_image()
{
	local name image=$work/image
	say "the guest's image, with $(basename "$program")"
	mkdir -p "$image"/{proc,sys,dev,run,tmp,bin,sbin,usr/bin,usr/sbin,etc} "$image$bpf"
	install "$busybox" "$image/bin/busybox"
	for name in $("$busybox" --list); do
		[ -e "$image/bin/$name" ] || ln -s busybox "$image/bin/$name"
	done
	rm -f "$image/bin/ip" "$image/bin/sysctl" # Debian's can more
	copy "${tools[@]}"
	for name in "$program" "${beside[@]}"; do
		[ ! -e "$name" ] || copy_as "$image/usr/bin/$(basename "$name")" "$name"
	done
	case $(ldd "$program") in *librte_eal*) copy_drivers; copy "${testpmd[@]}" ;; esac
	# The loader of XDP programs looks for these.
	cp "$bpf"/*.o "$image$bpf/" 2>/dev/null || true
	cp -r "$kernel/modules" "$image/"
	cp "$kernel/vmlinux" "$guest/kernel.new"
	(cd "$image" && find . -print0 | LC_ALL=C sort -z | cpio --null --create --quiet \
		--format=newc --owner=0:0 --reproducible) >"$guest/initramfs.new" ||
		die "cpio could not make the guest's image"
	mv "$guest/kernel.new" "$guest/kernel"
	mv "$guest/initramfs.new" "$guest/initramfs"
}

for tool in apt-get dpkg depmod modprobe cpio xz ip ethtool bridge bash sysctl busybox; do
	command -v $tool >/dev/null || die "there is no $tool"
done
tools=()
for tool in ip ethtool bridge bash sysctl; do tools+=("$(command -v $tool)"); done
mapfile -t testpmd < <(command -v dpdk-testpmd)
busybox=$(command -v busybox)
! ldd "$busybox" >/dev/null 2>&1 || die "busybox is not static: install busybox-static"
multiarch=$(dpkg-architecture -q DEB_HOST_MULTIARCH)
bpf=/usr/lib/$multiarch/bpf
work=$(mktemp -d -t switchmark-guest.XXXXXXXX)
trap 'rm -rf "$work"' EXIT
package=$(kernel_package)
if [ -z "$package" ]; then
	reason=$(apt_said <"$work/apt.log")
	die "apt-cache knows no linux-image-amd64: ${reason:-none of its sources has it}"
fi
version=$(apt-cache show --no-all-versions "$package" | sed -n 's/^Version: //p' | head -n 1)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/switchmark
kernel=$cache/guest-$version-$(cksum <<<"${modules[*]}" | cut -d ' ' -f 1)
mkdir -p "$cache" "$guest"
exec 8>"$cache/lock"
flock 8
# A package that apt no longer offers stays in use, until a newer one is downloaded.
[ -e "$kernel/vmlinux" ] || unpack_kernel </dev/null
stamp=$({
	printf '%s\n' "$version" "$program"
	sha256sum "$0" "$(dirname "$0")/kernel.sh" "$program" "$busybox" "${tools[@]}" "${testpmd[@]}"
	for name in "${beside[@]}"; do
		if [ -e "$name" ]; then sha256sum "$name"; fi
	done
} | sha256sum)
if [ "$(cat "$guest/stamp" 2>/dev/null)" != "$stamp" ]; then
	rm -f "$guest/stamp"
	make_image
	printf '%s\n' "$version" >"$guest/version"
	printf '%s\n' "$stamp" >"$guest/stamp"
fi
