#!/usr/bin/env bash
# Installs the generator of the site into build/site/venv, by hash. Nothing is done if it is there.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=build/site/venv
lock=tools/website/requirements.lock
stamp=$(sha256sum $lock)
if [ "$(cat $venv/.lock 2>/dev/null)" = "$stamp" ] && $venv/bin/python -c '' 2>/dev/null; then
	exit
fi
echo "site: $(grep -c == $lock) Python packages of $lock, into $venv (140 MB)"
rm -rf $venv
.venv/bin/python -m venv $venv
$venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $lock
printf '%s\n' "$stamp" >$venv/.lock
