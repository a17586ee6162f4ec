#!/bin/sh
# Judges the present commit for `git bisect run`: 0 is good, 1 is bad, 125 skips it. Each commit is
# measured together with the good one.
#
#   git bisect start BAD GOOD
#   git bisect run .../ci/bisect.sh --switch NAME --build COMMAND --base GOOD --fail-on slower:5%
#
# The options are those of compare.sh, without --head and --out. A commit is skipped if it cannot be
# built or measured, and if the host is too noisy to tell.
set -eu
out=$(mktemp -d "${TMPDIR:-/tmp}/switchmark-bisect.XXXXXXXX")
trap 'rm -rf "$out"' EXIT
status=0
"$(dirname "$0")/compare.sh" "$@" --head HEAD --out "$out" || status=$?
case $status in
0 | 1) exit "$status" ;;
2 | 130 | 143) exit 128 ;; # git stops the bisection
*) exit 125 ;;
esac
