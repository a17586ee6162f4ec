#!/usr/bin/env bash
# Puts axe-core, which finds what stands in the way of who cannot see a page, into the file TARGET:
# for tests, never part of the project. It is the npm package of the version and the hash below, from
# the registry that npm is set up for. On failure, the last line of stderr is the reason.
set -euo pipefail

[ $# -eq 1 ] || { printf 'usage: %s TARGET\n' "$0" >&2; exit 2; }
target=$1
version=4.14.1
sha512=1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b734f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5

die() { printf '%s\n' "$*" >&2; exit 1; }

command -v npm >/dev/null || die "npm is not installed"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npm pack --silent --pack-destination "$work" "axe-core@$version" >&2 || die "npm cannot get axe-core $version"
printf '%s  %s\n' "$sha512" "$work/axe-core-$version.tgz" | sha512sum --check --quiet >&2 ||
	die "axe-core $version is not what it was"
mkdir -p "$(dirname "$target")"
tar -xzf "$work/axe-core-$version.tgz" -C "$work" package/axe.min.js
mv "$work/package/axe.min.js" "$target"
