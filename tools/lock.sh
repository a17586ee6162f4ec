#!/usr/bin/env bash
<<<<<<< HEAD
# Rewrites requirements.lock from the dependencies in pyproject.toml, and tools/website/requirements.lock
# from its list: exact versions with their hashes, and no address of any package index.
#   tools/lock.sh [project|site]     one of them
=======
# Rewrites requirements.lock and tools/dist.lock from the dependencies in pyproject.toml: exact
# versions with their hashes, and no address of any package index. tools/dist.lock has the extra `dist` only.
>>>>>>> h/dist
set -euo pipefail
cd "$(dirname "$0")/.."

python=build/lock/bin/python
[ -x "$python" ] || "${PYTHON:-python3}" -m venv build/lock
"$python" -m pip install --quiet pip-tools
<<<<<<< HEAD

lock() # TARGET ARGUMENT...
{
	"$python" -m piptools compile --quiet --upgrade --generate-hashes --strip-extras --allow-unsafe \
		--no-header --no-emit-options --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
		--output-file "$@"
	echo "$1: $(grep -c '==' "$1") packages"
}

case ${1:-all} in all | project) lock requirements.lock --extra dev --extra lab pyproject.toml ;; esac
case ${1:-all} in all | site) lock tools/website/requirements.lock tools/website/requirements.in ;; esac
=======
compile() # FILE SOURCE OPTION...
{
	"$python" -m piptools compile --quiet --upgrade "${@:3}" --generate-hashes --strip-extras \
		--allow-unsafe --no-header --no-emit-options --no-emit-index-url --no-emit-find-links \
		--no-emit-trusted-host --no-annotate --output-file "$1" "$2"
	echo "$1: $(grep -c '==' "$1") packages"
}

compile requirements.lock pyproject.toml --annotate --extra dev --extra lab --extra plots --extra query
"$python" -c 'import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["project"]["optional-dependencies"]["dist"], sep="\n")' |
	compile tools/dist.lock -
>>>>>>> h/dist
