#!/usr/bin/env bash
# Builds the files of a release: a wheel for each processor, which needs no compiler
# and runs with glibc 2.28 or newer; the source distribution; a bill of materials; checksums.
#   tools/dist.sh [x86_64] [aarch64] [--out FOLDER]     by default both, into dist
# Zig compiles the C programs against the symbols of that glibc. jansson, libbpf, libxdp, libelf and
# zlib are linked statically, from the Debian packages of the release below. DPDK's engine is built as
# a module for each Debian release in `dpdks` (traffic/src/modules.h). QEMU runs the programs of another
# processor. All of these, and the tools of tools/dist.lock, are unpacked into build/dist; nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/messages.sh

glibc=2.28
libraries=bookworm # newer releases have static libraries with symbols of a newer glibc
packages=(libbpf-dev libxdp-dev libelf-dev zlib1g-dev libjansson-dev libc6 libgcc-12-dev)
dpdks=(bookworm:23 trixie:25) # Debian release, and the ABI of its DPDK
dpdk_libraries=(eal ethdev mbuf mempool)
declare -A debian=([x86_64]=amd64 [aarch64]=arm64)
declare -A cpu=([x86_64]=x86_64 [aarch64]=generic)
# DPDK's headers need these instructions; the module is loaded only where DPDK runs.
declare -A dpdk_cpu=([x86_64]=nehalem [aarch64]=generic+crc)

work=$PWD/build/dist
out=$PWD/dist
tools=$work/tools
zig=
say() { printf 'dist:    %s\n' "$*"; }
die() { printf 'dist: error: %s\n' "$1" >&2; [ $# -lt 2 ] || printf '\nhint: %s\n' "$2" >&2; exit "${3:-1}"; }

# --- tools -----------------------------------------------------------------------------------

get_tools()
{
	local stamp
	stamp=$(sha256sum tools/dist.lock)
	if [ "$(cat "$tools/.lock" 2>/dev/null)" != "$stamp" ]; then
		say "tools of tools/dist.lock, into build/dist/tools (450 MB)"
		rm -rf "$tools"
		"${PYTHON:-python3}" -m venv "$tools"
		"$tools/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
			--requirement tools/dist.lock
		printf '%s\n' "$stamp" >"$tools/.lock"
	fi
	export PATH=$tools/bin:$PATH
	zig=$(python -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
	for tool in pkg-config dpkg-deb apt-get "${CLANG:-clang-14}"; do
		command -v "$tool" >/dev/null || die "there is no $tool" "make setup" 3
	done
}

# --- packages of Debian ----------------------------------------------------------------------

unpack() # ARCH RELEASE FOLDER PACKAGE...: of a release and a processor, whatever this host has
{
	local arch=$1 release=$2 folder=$3 mirror deb settings
	shift 3
	if [ "$(cat "$folder/.packages" 2>/dev/null)" = "$*" ]; then
		return
	fi
	say "packages of Debian $release for $arch: $*"
	mirror=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' |
		awk '$1 == "Debian" && $2 !~ /security/ { print $2; exit }')
	[ -n "$mirror" ] || die "apt has no source of Debian" "a Debian host, after apt-get update" 3
	rm -rf "$folder"
	mkdir -p "$folder"/{lists/partial,cache/archives/partial,debs,root}
	: >"$folder/status"
	printf 'deb [signed-by=%s] %s %s main\n' /usr/share/keyrings/debian-archive-keyring.gpg "$mirror" "$release" \
		>"$folder/sources.list"
	settings=(-o "APT::Architecture=$arch" -o "APT::Architectures::=$arch" -o Acquire::Languages=none
		-o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o "Dir::State::Lists=$folder/lists" -o "Dir::State::status=$folder/status"
		-o "Dir::Cache=$folder/cache" -o APT::Sandbox::User=root)
	{
		apt-get "${settings[@]}" --quiet update
		(cd "$folder/debs" && apt-get "${settings[@]}" --quiet download "$@")
	} >"$folder/apt.log" 2>&1 || die "apt-get failed: $(apt_said <"$folder/apt.log")"
	for deb in "$folder"/debs/*.deb; do
		dpkg-deb --extract "$deb" "$folder/root"
		dpkg-deb --field "$deb" Package Version >>"$folder/versions"
	done
	rm -rf "$folder"/{lists,cache}
	printf '%s' "$*" >"$folder/.packages"
}

emulator() # ARCH: the command that runs its programs here; empty for this processor
{
	[ "$1" != "$(uname -m)" ] || return 0
	unpack "$(dpkg --print-architecture)" "$libraries" "$work/qemu" qemu-user-static >&2
	printf '%s\n' "$work/qemu/root/usr/bin/qemu-$1-static"
}

# --- compilers -------------------------------------------------------------------------------

write_cross() # FILE ARCH ROOT CPU STATIC: what Meson needs to know
{
	local file=$1 arch=$2 root=$3 cpu=$4 static=$5 multiarch=$2-linux-gnu link="'-s'" wrapper
	# Meson asks for thin archives, which Zig's linker cannot read.
	cat >"$work/zig-ar" <<-END
		#!/bin/sh
		mode=\$1
		shift
		exec "$zig" ar "\$(printf %s "\$mode" | tr -d T)" "\$@"
	END
	chmod +x "$work/zig-ar"
	# Functions that the compiler of the static libraries calls.
	[ ! -e "$root/usr/lib/gcc/$multiarch/12/libgcc.a" ] || link+=", '$root/usr/lib/gcc/$multiarch/12/libgcc.a'"
	wrapper=$(emulator "$arch")
	cat >"$file" <<-END
		[binaries]
		c = ['$zig', 'cc', '-target', '$arch-linux-gnu.$glibc', '-mcpu=$cpu']
		ar = '$work/zig-ar'
		pkg-config = 'pkg-config'
		${wrapper:+exe_wrapper = ['$wrapper', '-L', '$work/$arch/libraries/root']}
		[host_machine]
		system = 'linux'
		cpu_family = '$arch'
		cpu = '$arch'
		endian = 'little'
		[properties]
		needs_exe_wrapper = $([ -n "$wrapper" ] && echo true || echo false)
		pkg_config_libdir = '$root/usr/lib/$multiarch/pkgconfig:$root/usr/share/pkgconfig'
		sys_root = '$root'
		[built-in options]
		prefer_static = $static
		c_args = ['-idirafter', '$root/usr/include', '-idirafter', '$root/usr/include/$multiarch']
		c_link_args = [$link]
	END
}

dpdk_module() # ARCH RELEASE ABI: its path is printed
{
	local arch=$1 release=$2 abi=$3 folder=$work/$1/dpdk-$3 pc multiarch=$1-linux-gnu
	local names=("${dpdk_libraries[@]/#/librte-}") log=$work/$1/dpdk-$3.log
	unpack "${debian[$arch]}" "$release" "$folder" libdpdk-dev libbsd-dev libjansson-dev "${names[@]/%/$abi}" >&2
	pc=$folder/root/usr/lib/$multiarch/pkgconfig/libdpdk.pc
	# Only the libraries that the engine calls, and nothing of what they need themselves.
	cat >"$pc.new" <<-END
		$(grep -E '^(Name|Version): ' "$pc")
		Description: the part of DPDK that the engine calls
		Cflags: -I/usr/include/dpdk -I/usr/include/$multiarch/dpdk -include rte_config.h
		Libs: -L/usr/lib/$multiarch ${dpdk_libraries[@]/#/-lrte_}
	END
	mv "$pc.new" "$pc"
	write_cross "$folder/cross.ini" "$arch" "$folder/root" "${dpdk_cpu[$arch]}" false
	rm -rf "$folder/build"
	{
		meson setup "$folder/build" --cross-file "$folder/cross.ini" -Ddpdk=enabled -Ddpdk_module=true \
			-Dxdp=disabled -Dpcap=disabled -Dnetmap=disabled
		meson compile -C "$folder/build" "switchmark-engine-dpdk.$abi"
	} >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "DPDK's module for ABI $abi, $arch, cannot be built: $log"; }
	printf '%s\n' "$folder/build/traffic/switchmark-engine-dpdk.$abi.so"
}

# --- distributions ---------------------------------------------------------------------------

wheel() # ARCH
{
	local arch=$1 folder=$work/$1 modules=() entry log=$work/$1/wheel.log
	mkdir -p "$folder"
	unpack "${debian[$arch]}" "$libraries" "$folder/libraries" "${packages[@]}"
	for entry in "${dpdks[@]}"; do
		say "engine dpdk for $arch with DPDK of $entry"
		modules+=("$(dpdk_module "$arch" "${entry%:*}" "${entry#*:}")")
	done
	say "wheel for $arch"
	write_cross "$folder/cross.ini" "$arch" "$folder/libraries/root" "${cpu[$arch]}" true
	rm -rf "$folder"/{build,wheel} "$out"/switchmark-*"_$arch.whl"
	_PYTHON_HOST_PLATFORM=linux-$arch python -m build --wheel --no-isolation --outdir "$folder/wheel" \
		-Cbuild-dir="$folder/build" -Csetup-args=--cross-file="$folder/cross.ini" \
		-Csetup-args=-Ddpdk=disabled -Csetup-args=-Dpcap=disabled -Csetup-args=-Dxdp=enabled \
		-Csetup-args=-Dnetmap=disabled -Csetup-args=-Dagent_target="$arch-linux-musl" \
		-Csetup-args=-Dmodules="$(IFS=,; echo "${modules[*]}")" . >"$log" 2>&1 ||
		{ tail -n 30 "$log" >&2; die "the wheel for $arch cannot be built: $log"; }
	# Its tag is of the newest glibc whose symbols a program asks for; DPDK's libraries are the host's.
	auditwheel repair --plat auto --exclude 'librte_*' --only-plat --wheel-dir "$out" \
		"$folder"/wheel/*.whl >"$folder/auditwheel.log" 2>&1 ||
		{ tail -n 20 "$folder/auditwheel.log" >&2; die "auditwheel refuses the wheel for $arch"; }
	[ -e "$out"/switchmark-*-"py3-none-manylinux_${glibc/./_}_$arch.whl" ] ||
		die "auditwheel tags the wheel for $arch otherwise than for glibc $glibc: $(cd "$out" && ls ./*"_$arch.whl")"
}

try_programs() # ARCH: the programs in the wheel start, and the C unit tests pass
{
	local arch=$1 folder=$work/$1/unpacked wrapper=() start
	start=$(emulator "$arch")
	[ -z "$start" ] || wrapper=("$start" -L "$work/$arch/libraries/root")
	rm -rf "$folder"
	mkdir -p "$folder"
	python -m zipfile -e "$out"/*"_$arch.whl" "$folder"
	chmod +x "$folder"/*.data/scripts/*
	for program in traffic tool agent; do
		say "$arch: $("${wrapper[@]}" "$folder"/*.data/scripts/"switchmark-$program" version)"
	done
	"${wrapper[@]}" "$folder"/*.data/scripts/switchmark-traffic engines >"$work/$arch/engines.json"
	meson test -C "$folder/../build" --no-rebuild --quiet merged order series >"$work/$arch/tests.log" 2>&1 ||
		{ tail -n 20 "$work/$arch/tests.log" >&2; die "the C unit tests fail for $arch"; }
	say "$arch: the C unit tests merged, order and series pass"
	# These have paced senders, which are late on a busy host.
	if meson test -C "$folder/../build" --no-rebuild --quiet core loop >"$work/$arch/timed.log" 2>&1; then
		say "$arch: the C unit tests core and loop pass"
	else
		say "$arch: not all C unit tests of core and loop pass: $(grep -c '^not ok' "$folder/../build/meson-logs/testlog.txt" || true) fail"
	fi
}

architectures=()
while [ $# -gt 0 ]; do
	case $1 in
	--out)
		[ $# -ge 2 ] || die "--out needs a folder" "tools/dist.sh --out /tmp/release" 2
		out=$(realpath --canonicalize-missing "$2")
		shift
		;;
	x86_64 | aarch64) architectures+=("$1") ;;
	*) die "there is no processor '$1'" "tools/dist.sh x86_64 aarch64" 2 ;;
	esac
	shift
done
[ ${#architectures[@]} -gt 0 ] || architectures=(x86_64 aarch64)
mkdir -p "$work" "$out"
get_tools
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH ZIG_GLOBAL_CACHE_DIR=$work/zig-cache ZIG_LOCAL_CACHE_DIR=$work/zig-cache
# Meson installs the folder of the package as it is, with the bytecode of earlier imports.
find src/switchmark -depth -type d -name __pycache__ -exec rm -rf {} +
for arch in "${architectures[@]}"; do
	wheel "$arch"
	try_programs "$arch"
done
say "source distribution"
rm -f "$out"/{switchmark-*.tar.gz,switchmark-*.cdx.json,SHA256SUMS}
python -m build --sdist --no-isolation --outdir "$out" . >"$work/sdist.log" 2>&1 ||
	{ tail -n 20 "$work/sdist.log" >&2; die "the source distribution cannot be made: $work/sdist.log"; }
say "bill of materials"
python tools/sbom.py "$work" "$out" "${architectures[@]}"
(cd "$out" && sha256sum switchmark-* >SHA256SUMS)
say "ready, in $out:"
(cd "$out" && du -h -- switchmark-* SHA256SUMS)
