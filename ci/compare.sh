#!/bin/sh
# Builds two commits of a switch, measures both in one run, and compares them. The action, the GitLab
# template and ci/bisect.sh call this script. Call it in the repository of the switch.
#
#   compare.sh --switch NAME --build COMMAND --base COMMIT [--head COMMIT] [--run OPTIONS]
#              [--fail-on CONDITION,...] [--out FOLDER]
#
#   --switch   the driver, such as vpp, ovs-dpdk or testpmd
#   --build    a shell command that builds the work tree in which it is called, and installs the
#              program into the folder $OUT
#   --base     the commit to compare with, such as origin/main
#   --head     the commit to judge [HEAD]
#   --run      options of `switchmark run` [--search max --repeat 10]
#   --fail-on  conditions of `switchmark compare` [slower:3%]
#   --out      writes run/, report.html, result.xml and comment.md into this folder [switchmark-ci]
#
# SWITCHMARK is the command to call, such as "sudo switchmark" [switchmark]. The exit code is that of
# `compare`: 0 passed, 1 a condition holds, 6 cannot tell. It is 125 if a commit cannot be built or
# measured, and 2 for a wrong request.
set -eu

wrong() {
	echo "compare.sh: $1" >&2
	exit 2
}

switch='' build='' base='' head=HEAD run='--search max --repeat 10' fail_on='slower:3%' out=switchmark-ci
while [ $# -gt 0 ]; do
	[ $# -ge 2 ] || wrong "$1 takes a value"
	case $1 in
	--switch) switch=$2 ;;
	--build) build=$2 ;;
	--base) base=$2 ;;
	--head) head=$2 ;;
	--run) run=$2 ;;
	--fail-on) fail_on=$2 ;;
	--out) out=$2 ;;
	*) wrong "there is no option $1" ;;
	esac
	shift 2
done
[ -n "$switch" ] && [ -n "$build" ] && [ -n "$base" ] || wrong "--switch, --build and --base are necessary"
base_id=$(git rev-parse --verify --quiet "$base^{commit}") || wrong "there is no commit $base"
head_id=$(git rev-parse --verify --quiet "$head^{commit}") || wrong "there is no commit $head"
switchmark=${SWITCHMARK:-switchmark}
mkdir -p "$out"
[ ! -e "$out/run" ] || wrong "$out/run exists: remove it, or name another --out"

work=$(mktemp -d "${TMPDIR:-/tmp}/switchmark-ci.XXXXXXXX")
clean_up() {
	for name in base head; do
		git worktree remove --force "$work/$name-source" 2>/dev/null || true
	done
	rm -rf "$work"
	git worktree prune
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

built() { # Builds a commit into a folder of $work
	git worktree add --quiet --detach "$work/$1-source" "$2"
	mkdir "$work/$1"
	if ! (cd "$work/$1-source" && OUT="$work/$1" sh -c "$build"); then
		echo "compare.sh: $1 ($2) cannot be built" >&2
		exit 125
	fi
}
built base "$base_id"
built head "$head_id"

# Both take turns in one run, so a disturbance of the host affects both.
before="$switch@$work/base" after="$switch@$work/head"
# shellcheck disable=SC2086 # both are several words
if ! $switchmark run --switch "$before,$after" $run --out "$out" --name run --quiet; then
	echo "compare.sh: the run failed" >&2
	exit 125
fi
status=0
$switchmark compare "$out/run" --base "$before" --fail-on "$fail_on" \
	--junit "$out/result.xml" --markdown "$out/compare.md" || status=$?
$switchmark report "$out/run" -o "$out/report.html"
case $status in
0) verdict='passed' ;;
1) verdict='failed' ;;
6) verdict='cannot tell: the host is too noisy, or more repeats are necessary' ;;
*) exit 125 ;;
esac
{
	echo "### switchmark: $verdict"
	echo
	echo "\`$switch\`: base $(git rev-parse --short "$base_id"), head $(git rev-parse --short "$head_id"), \`--fail-on $fail_on\`"
	echo
	sed -e "s|$work/||g" -e 1d "$out/compare.md"
} >"$out/comment.md"
rm "$out/compare.md"
exit "$status"
