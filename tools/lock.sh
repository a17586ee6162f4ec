#!/usr/bin/env bash
# Rewrites requirements.lock and tools/dist.lock from the dependencies in pyproject.toml, and
# tools/website/requirements.lock from its list: exact versions with their hashes, and no address of any
# package index. tools/dist.lock has the extra `dist` only.
#   tools/lock.sh [project|site]     one of them
set -euo pipefail
cd "$(dirname "$0")/.."

python=build/lock/bin/python
[ -x "$python" ] || "${PYTHON:-python3}" -m venv build/lock
"$python" -m pip install --quiet pip-tools

lock() # FILE SOURCE OPTION...
{
	"$python" -m piptools compile --quiet --upgrade "${@:3}" --generate-hashes --strip-extras \
		--allow-unsafe --no-header --no-emit-options --no-emit-index-url --no-emit-find-links \
		--no-emit-trusted-host --output-file "$1" "$2"
	echo "$1: $(grep -c '==' "$1") packages"
}

project()
{
	lock requirements.lock pyproject.toml --extra dev --extra lab --extra plots --extra query
	"$python" -c 'import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["project"]["optional-dependencies"]["dist"], sep="\n")' |
		lock tools/dist.lock - --no-annotate
}

case ${1:-all} in all | project) project ;; esac
case ${1:-all} in all | site) lock tools/website/requirements.lock tools/website/requirements.in ;; esac
