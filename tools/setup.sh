#!/usr/bin/env bash
# Installs missing requirements, then switchmark itself into .venv:
#   1. the Debian packages of tools/apt-packages.txt (sudo only if not root);
#   2. the Python packages of requirements.lock, by hash;
#   3. the project, built as `pip install .` builds it;
#   4. two sample programs of DPDK, by tools/dpdk-samples.sh, if DPDK is installed;
#   5. the guest of the environment vm, by tools/guest.sh, if part vm is requested;
#   6. axe-core for the tests of pages, by tools/axe.sh, if part page is requested.
# Each step is skipped if the hash of its inputs has not changed.
# SWITCHMARK_NETMAP=FOLDER is the folder of netmap's source or headers: the traffic program then has
# the engine netmap.
#   tools/setup.sh [PART...]     parts of tools/apt-packages.txt, or `all` except those in $seldom
# A requested part belongs to this tree until `make clean`.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/messages.sh

venv=.venv
always=(build engine switch)
seldom=(page) # A browser is the largest part, so it must be named.
die() { printf 'setup: error: %s\n' "$1" >&2; [ $# -lt 2 ] || printf '\nhint: %s\n' "$2" >&2; exit "${3:-1}"; }

# --- 0. Requested parts ----------------------------------------------------------------------

known_parts() # Parts that are not always installed.
{
	awk -v always=" ${always[*]} " '!/^#/ && NF && !index(always, " " $1 " ") && !seen[$1]++ { print $1 }' \
		tools/apt-packages.txt
}

choose_parts() # PART...: sets $parts, including the earlier ones
{
	local part known
	mapfile -t known < <(known_parts)
	for part in "$@"; do
		case " all ${known[*]} " in
		*" $part "*) ;;
		*) die "there is no part '$part'
  known: ${known[*]}, or all" 'make setup PARTS="docker vm"' 2 ;;
		esac
	done
	mapfile -t parts < <({
		cat build/setup/parts 2>/dev/null || true
		printf '%s\n' "$@"
		case " $* " in *" all "*) printf '%s\n' "${known[@]}" | grep -vxF "${seldom[@]/#/-e}" ;; esac
	} | sed '/^$/d; /^all$/d' | sort -u)
}

# --- 1. Debian packages ----------------------------------------------------------------------

packages_of() # PART...
{
	awk -v parts=" $* " '!/^#/ && NF && index(parts, " " $1 " ") { print $2 }' tools/apt-packages.txt | sort -u
}

missing_packages() # PART...: packages that are not installed
{
	packages_of "$@" >build/setup/wanted
	xargs dpkg-query --show --showformat '${Package} ${db:Status-Status}\n' <build/setup/wanted 2>/dev/null |
		awk '$2 == "installed" { print $1 }' | sort -u >build/setup/installed || true
	comm -23 build/setup/wanted build/setup/installed | grep -vxFf build/setup/left-out || true
}

as_root()
{
	if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

apt() # What its words are matched against, here and in other scripts, are those of the C locale.
{
	as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@"
}

show_progress() # LOG: on a terminal, how many packages apt-get has set up so far, once a second
{
	[ -t 1 ] || return 0
	trap 'printf "\r\033[K"; exit' TERM
	while sleep 1; do
		printf '\rsetup:   %s packages installed ' "$(grep -c '^Setting up' "$1" || true)"
	done
}

apt_install()
{
	# No daemon may start because its package was installed. A policy that is already there
	# is the administrator's and stays.
	local policy=/usr/sbin/policy-rc.d status=0 log=build/setup/apt-install.log progress
	if [ ! -e "$policy" ] && [ ! -L "$policy" ]; then
		trap 'as_root rm -f /usr/sbin/policy-rc.d' EXIT
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		as_root chmod 755 "$policy"
	fi
	show_progress $log &
	progress=$!
	apt install --yes --no-install-recommends "$@" >>$log 2>&1 || status=$?
	kill $progress 2>/dev/null || true
	wait $progress 2>/dev/null || true
	[ "$status" -eq 0 ] || say "apt-get failed: $(apt_said <$log) (all it printed: $log)"
	if [ -n "$(trap -p EXIT)" ]; then
		as_root rm -f "$policy"
		trap - EXIT
	fi
	return "$status"
}

leave_out() # REASON PACKAGE...
{
	say "left out until make clean, $1: ${*:2}"
	printf '%s\n' "${@:2}" >>build/setup/left-out
}

forget_left_out() # What could not be had is tried again when the list changes or its part is named.
{
	local again=build/setup/again
	if [ ! -e build/setup/left-out ] || [ tools/apt-packages.txt -nt build/setup/left-out ]; then
		: >build/setup/left-out
	fi
	packages_of "$@" >$again
	grep -vxFf $again build/setup/left-out >build/setup/left-out.new || true
	mv build/setup/left-out.new build/setup/left-out
	rm -f $again
}

list() # WORD...: with commas
{
	local words="$*"
	printf '%s' "${words// /, }"
}

announce() # PACKAGE...: what apt would install with them, and how much that is
{
	local told
	say "Debian packages to install, for $(list "${always[@]}" "${parts[@]}"): $*"
	told=$(apt install --assume-no --no-install-recommends "$@" 2>&1 </dev/null) || true
	if grep -q '^After this operation' <<<"$told"; then
		sed -nE 's/^([0-9]+ upgraded, .*|Need to get .*|After this operation.*)/setup:   \1/p' <<<"$told"
	else
		say "apt-get cannot tell how much that is: $(apt_said <<<"$told")"
	fi
	[ -e $venv/.lock ] || say "then, into $venv: $(python_count) Python packages, some 300 MB"
}

debian_packages()
{
	local needed other log=build/setup/apt-update.log
	if ! command -v dpkg-query >/dev/null; then
		say "not a Debian system: install what tools/apt-packages.txt names by other means"
		return
	fi
	mapfile -t needed < <(missing_packages build)
	mapfile -t other < <(missing_packages "${always[@]:1}" "${parts[@]}")
	[ $((${#needed[@]} + ${#other[@]})) -gt 0 ] || return 0

	if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
		[ ${#needed[@]} -eq 0 ] || die "missing and neither root nor sudo: ${needed[*]}" \
			"as root: apt-get install ${needed[*]}"
		leave_out "neither root nor sudo" "${other[@]}"
		return
	fi
	say "looking for what is missing: apt-get update"
	apt --quiet update >$log 2>&1 ||
		say "apt-get update failed, trying with the lists of last time: $(apt_said <$log)"
	: >build/setup/apt-install.log
	announce "${needed[@]}" "${other[@]}"
	if [ ${#needed[@]} -gt 0 ]; then
		apt_install "${needed[@]}" || die "apt-get could not install: ${needed[*]}"
	fi
	if [ ${#other[@]} -gt 0 ] && ! apt_install "${other[@]}"; then
		# One that this release does not have must not keep the others away.
		for package in "${other[@]}"; do
			apt_install "$package" || leave_out "apt-get cannot install it" "$package"
		done
	fi
}

# --- 2. Python packages ----------------------------------------------------------------------

usable() # PYTHON: 3.11 or newer, and able to make a venv
{
	"$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() # The system's python3 first: other users may run it too.
{
	local candidate
	for candidate in ${PYTHON:-} /usr/bin/python3 python3; do
		if usable "$candidate"; then
			printf '%s\n' "$candidate"
			return
		fi
	done
	die "no Python 3.11 or newer with its venv module" "make setup PYTHON=/path/to/python3"
}

python_count() { grep -c == requirements.lock; }

python_packages()
{
	local stamp python
	stamp=$(sha256sum requirements.lock)
	if [ "$(cat $venv/.lock 2>/dev/null)" = "$stamp" ] && $venv/bin/python -c '' 2>/dev/null; then
		return
	fi
	python=$(find_python)
	say "$(python_count) Python packages of requirements.lock, for $("$python" --version), into $venv (a minute or two)"
	rm -rf $venv
	"$python" -m venv $venv
	$venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		--requirement requirements.lock
	printf '%s\n' "$stamp" >$venv/.lock
}

# --- 3. The project --------------------------------------------------------------------------

netmap_headers() # The folder that has net/netmap_user.h, as it was named last
{
	local folder named=${SWITCHMARK_NETMAP:-}
	for folder in ${named:+"$named" "$named/sys" "$named/include"}; do
		if [ -f "$folder/net/netmap_user.h" ]; then
			realpath "$folder" >build/setup/netmap
			named=
		fi
	done
	[ -z "$named" ] || die "there is no net/netmap_user.h in $named, nor in its sys or include" \
		"SWITCHMARK_NETMAP=/path/to/netmap make setup, with netmap's source"
	cat build/setup/netmap 2>/dev/null || true
}

inputs() # One line of a hash: names and contents of all that the wheel is made of.
{
	printf '%s\n' "$1"
	find src traffic agent meson.build meson.options pyproject.toml LICENSE NOTICE \
		-type f ! -path '*/__pycache__/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum
}

project()
{
	local stamp headers log=build/setup/project.log
	headers=$(netmap_headers)
	stamp=$(inputs "$headers" | sha256sum)
	if [ "$(cat $venv/.project 2>/dev/null)" = "$stamp" ]; then
		return
	fi
	say "switchmark: the C program and the Python package, into $venv"
	rm -f $venv/.project
	# The build folder stays, so that only what changed is compiled again. One that is older than the
	# list of options does not know a new one, and Meson refuses what it does not know.
	[ build/wheel/build.ninja -nt meson.options ] || rm -rf build/wheel
	mkdir -p build/wheel
	if ! PATH="$PWD/$venv/bin:$PATH" $venv/bin/python -m pip install --disable-pip-version-check \
		--no-deps --no-build-isolation --no-index --force-reinstall \
		--config-settings build-dir=build/wheel \
		--config-settings "setup-args=-Dnetmap_headers=$headers" . >$log 2>&1; then
		cat $log >&2
		die "the project could not be built"
	fi
	# src/ comes before the installed copy, so that an edited Python file counts at once.
	printf 'import sys; sys.path.insert(0, %s)\n' "$($venv/bin/python -c 'import os; print(repr(os.path.abspath("src")))')" \
		>"$(echo $venv/lib/python3.*/site-packages)/switchmark-src.pth"
	printf '%s\n' "$stamp" >$venv/.project
}

# --- 4. DPDK's sample programs ---------------------------------------------------------------

samples()
{
	local stamp log=build/setup/samples.log left_out=build/setup/samples-left-out
	# What could not be had is not tried again, until DPDK or apt's sources change.
	stamp=$({
		cat tools/dpdk-samples.sh /etc/apt/sources.list /etc/apt/sources.list.d/*
		dpkg-query --show libdpdk-dev
	} 2>/dev/null | sha256sum || true)
	if [ "$(cat $left_out 2>/dev/null)" = "$stamp" ]; then
		return
	fi
	rm -f $left_out
	if ! tools/dpdk-samples.sh $venv/bin 2>$log; then
		rm -f $venv/bin/dpdk-{skeleton,l2fwd}
		say "left out until make clean, $(tail -n 1 $log): dpdk-skeleton dpdk-l2fwd"
		printf '%s\n' "$stamp" >$left_out
	fi
}

# --- 5. The guest of virtual machines ---------------------------------------------------------

guest()
{
	local stamp log=build/setup/guest.log left_out=build/setup/guest-left-out
	case " ${parts[*]} " in *" vm "*) ;; *) return 0 ;; esac
	stamp=$(cat tools/guest.sh tools/kernel.sh tools/apt-packages.txt $venv/.project | sha256sum)
	if [ "$(cat $left_out 2>/dev/null)" = "$stamp" ]; then
		return
	fi
	rm -f $left_out
	if ! tools/guest.sh $venv/bin/switchmark-traffic $venv/share/switchmark/guest 2>$log; then
		rm -f $venv/share/switchmark/guest/stamp
		say "left out until make clean, $(tail -n 1 $log): the guest of the environment vm"
		printf '%s\n' "$stamp" >$left_out
	fi
}

# --- 6. What tests look at a page with --------------------------------------------------------

axe()
{
	local stamp log=build/setup/axe.log left_out=build/setup/axe-left-out
	local target=$venv/share/switchmark/axe.min.js
	case " ${parts[*]} " in *" page "*) ;; *) return 0 ;; esac
	stamp=$({ cat tools/axe.sh; command -v npm || true; } | sha256sum)
	if [ "$(cat $left_out 2>/dev/null)" = "$stamp" ] || [ "$(cat $target.stamp 2>/dev/null)" = "$stamp" ]; then
		return
	fi
	rm -f $left_out $target.stamp
	if tools/axe.sh $target 2>$log; then
		printf '%s\n' "$stamp" >$target.stamp
	else
		rm -f $target
		say "left out until make clean, $(tail -n 1 $log): axe-core, for tests of pages"
		printf '%s\n' "$stamp" >$left_out
	fi
}

IFS=', ' read -r -a asked <<<"$*"
choose_parts "${asked[@]}"
# A tree that was moved or copied is built anew: .venv and the build folders hold its old path.
if [ "$(cat build/setup/place 2>/dev/null || pwd)" != "$(pwd)" ]; then
	say "this tree was built elsewhere: building anew"
	rm -rf $venv build
fi
mkdir -p build/setup
pwd >build/setup/place
exec 9>build/setup/lock
flock 9
printf '%s\n' "${parts[@]}" >build/setup/parts
forget_left_out "${asked[@]}"
debian_packages
python_packages
project
samples
guest
axe
say "ready: $venv/bin/switchmark"
