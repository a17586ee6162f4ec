#!/usr/bin/env bash
# Builds the Debian that VMs of the host file ([hosts.NAME.vm]) boot, into the folder IMAGE:
# `root.img`, a file system of this release with sshd, Open vSwitch and the modules of a stock
# kernel; `kernel`, and `initramfs`, which mounts it; `user_key` and `known_hosts` for ssh. Both keys
# are generated for this image. It has about 700 MB and is read-only: a running VM writes to a
# separate overlay.
#   tools/lab-image.sh [IMAGE]    by default ~/.cache/switchmark/lab-image
# Needs root and mmdebstrap, which is installed if it is missing. PACKAGES="..." adds packages of
# Debian. SETUP=FILE runs in the new root at the end.
set -euo pipefail
here=$(dirname "$0")
image=$(realpath --canonicalize-missing \
	"${1:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/switchmark/lab-image}")
export LC_ALL=C
say() { printf 'lab-image: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
source "$here/kernel.sh"
source "$here/debian-root.sh"

packages=(
	linux-image-amd64 busybox-static kmod
	openssh-server
	iproute2 ethtool procps tcpdump
	openvswitch-switch
	nftables
)
first=(virtio_pci virtio_blk ext4) # the modules that are needed to mount root.img
left_out=(
	'/usr/share/doc/*' '/usr/share/man/*' '/usr/share/locale/*' '/usr/share/info/*'
	/etc/kernel/postinst.d/initramfs-tools # the initramfs is made here
	'*/lib/modules/*/kernel/drivers/'{gpu,media,usb,staging,iio,hid,infiniband,isdn,mtd,scsi,md,ata,input}/'*'
	'*/lib/modules/*/kernel/drivers/net/'{wireless,usb,can,wan,dsa}/'*'
	'*/lib/modules/*/kernel/sound/*'
	'*/lib/modules/*/kernel/fs/'{btrfs,xfs,ocfs2,gfs2,ceph,nfs,nfsd,cifs,ubifs,f2fs,jfs,reiserfs}/'*'
	'*/lib/modules/*/kernel/net/'{bluetooth,mac80211,wireless,can,nfc}/'*'
)

carried_needs() # The packages of the libraries of the traffic program, so that it runs there unchanged.
{
	{ ldd "$here/../.venv/bin/switchmark-traffic" 2>/dev/null || true; } | grep -oE '/[^ ]+' |
		xargs --no-run-if-empty realpath | xargs --no-run-if-empty dpkg --search 2>/dev/null |
		cut -d : -f 1 | sort -u
}

in_root() # COMMAND...: in $root, with a /proc of its own
{
	unshare --mount --pid --fork --kill-child sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' \
		"$root" "$@" </dev/null >&2
}

make_tree() # Into $root
{
	local excluded=() path
	for path in "${left_out[@]}"; do excluded+=("--dpkgopt=path-exclude=$path"); done
	make_debian "$root" "$(IFS=,; echo "${packages[*]}")" "${excluded[@]}" ||
		die "mmdebstrap could not make the root"
	install -m 755 "$here/lab-image/init" "$root/usr/local/sbin/switchmark-machine"
	install -m 644 "$here/lab-image/sshd_config" "$root/etc/ssh/sshd_config"
	rm -f "$root"/etc/ssh/ssh_host_*
	ssh-keygen -q -t ed25519 -N '' -C machine -f "$root/etc/ssh/ssh_host_ed25519_key"
	ssh-keygen -q -t ed25519 -N '' -C switchmark -f "$image.new/user_key"
	install -D -m 600 "$image.new/user_key.pub" "$root/root/.ssh/authorized_keys"
	printf 'switchmark-machine %s\n' \
		"$(cut -d ' ' -f 1,2 "$root/etc/ssh/ssh_host_ed25519_key.pub")" >"$image.new/known_hosts"
	printf 'machine\n' >"$root/etc/hostname"
	tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"
	rm -rf "$root"/var/{cache/apt,lib/apt/lists}/* "$root"/boot/{System.map,initrd}*
}

make_initramfs()
{
	local tree=$work/initramfs
	mkdir -p "$tree"/{bin,proc,sys,dev,root}
	install "$root/bin/busybox" "$tree/bin/busybox"
	install -m 755 "$here/lab-image/initramfs" "$tree/init"
	copy_modules "$root" "$tree" "${first[@]}"
	(cd "$tree" && find . -print0 | sort -z | cpio --null --create --quiet --format=newc \
		--owner=0:0) >"$image.new/initramfs"
}

make_disk()
{
	local megabytes
	megabytes=$(($(du -sm "$root" | cut -f 1) + 512))
	mke2fs -q -t ext4 -L switchmark -O ^has_journal -m 0 -d "$root" "$image.new/root.img" \
		"${megabytes}M" </dev/null
}

[ "$(id -u)" -eq 0 ] || die "only root can make a root file system: sudo make lab-image"
for tool in mke2fs cpio xz ssh-keygen depmod modprobe; do
	command -v $tool >/dev/null || die "there is no $tool: apt-get install e2fsprogs cpio xz-utils openssh-client kmod"
done
read -r -a more <<<"${PACKAGES:-}"
mapfile -t libraries < <(carried_needs)
packages+=("${more[@]}" "${libraries[@]}")
work=$(mktemp -d /var/tmp/switchmark-image.XXXXXXXX)
root=$work/root
trap 'rm -rf --one-file-system "$work" "$image.new"' EXIT
mkdir -p "$(dirname "$image")"
rm -rf "$image.new"
mkdir -m 700 "$image.new"
say "a Debian for machines, with ${packages[*]}"
make_tree
if [ -n "${SETUP:-}" ]; then
	install -m 755 "$SETUP" "$root/setup"
	in_root /setup || die "$SETUP failed"
	rm -f "$root/setup"
fi
unpack_image "$root"/boot/vmlinuz-* "$image.new/kernel"
make_initramfs
rm -f "$root"/boot/vmlinuz-*
make_disk
rm -rf "$image"
mv -T "$image.new" "$image"
say "ready: $image, $(du -sh "$image" | cut -f 1)"
