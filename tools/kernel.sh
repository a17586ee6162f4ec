# Functions of tools/guest.sh and tools/lab-image.sh for a Debian kernel. Source this file after
# defining `die`.

copy_modules() # ROOT FOLDER MODULE...: copies modules from ROOT, in the order of loading
{
	local module release root=$1 folder=$2
	shift 2
	release=$(ls "$root/lib/modules")
	depmod --basedir "$root" "$release" >&2 || die "depmod could not read the modules of $release"
	mkdir -p "$folder/modules"
	for module; do
		modprobe --set-version "$release" --dirname "$root" --show-depends "$module" ||
			die "the kernel $release has no module $module"
	done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' | while read -r module; do
		cp "$module" "$folder/modules/"
		printf '/modules/%s\n' "$(basename "$module")" >>"$folder/modules/order"
	done
}

unpack_image() # VMLINUZ FILE: the kernel itself, as an emulated machine takes long to unpack it
{
	local at
	at=$(LC_ALL=C grep --only-matching --byte-offset --text --max-count 1 --perl-regexp \
		'\xfd7zXZ\x00' "$1" | head -n 1 | cut -d : -f 1)
	if [ -z "$at" ] ||
		! xz --decompress --single-stream < <(tail -c "+$((at + 1))" "$1") >"$2"; then
		cp "$1" "$2"
	fi
}
