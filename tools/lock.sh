#!/usr/bin/env bash
# Rewrites requirements.lock from the dependencies in pyproject.toml, and tools/website/requirements.lock
# from its list: exact versions with their hashes, and no address of any package index.
#   tools/lock.sh [project|site]     one of them
set -euo pipefail
cd "$(dirname "$0")/.."

python=build/lock/bin/python
[ -x "$python" ] || "${PYTHON:-python3}" -m venv build/lock
"$python" -m pip install --quiet pip-tools

lock() # TARGET ARGUMENT...
{
	"$python" -m piptools compile --quiet --upgrade --generate-hashes --strip-extras --allow-unsafe \
		--no-header --no-emit-options --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
		--output-file "$@"
	echo "$1: $(grep -c '==' "$1") packages"
}

case ${1:-all} in all | project) lock requirements.lock --extra dev --extra lab pyproject.toml ;; esac
case ${1:-all} in all | site) lock tools/website/requirements.lock tools/website/requirements.in ;; esac
