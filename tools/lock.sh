#!/usr/bin/env bash
# Rewrites requirements.lock from the dependencies in pyproject.toml: exact versions with their
# hashes, and no address of any package index.
set -euo pipefail
cd "$(dirname "$0")/.."

python=build/lock/bin/python
[ -x "$python" ] || "${PYTHON:-python3}" -m venv build/lock
"$python" -m pip install --quiet pip-tools
"$python" -m piptools compile --quiet --upgrade --extra dev --extra lab --generate-hashes --strip-extras \
	--allow-unsafe --no-header --no-emit-options --no-emit-index-url --no-emit-find-links \
	--no-emit-trusted-host --output-file requirements.lock pyproject.toml
echo "requirements.lock: $(grep -c '==' requirements.lock) packages"
