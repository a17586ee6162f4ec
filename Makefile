# The verbs of this repository; `make help` lists them. `make` alone is `make setup`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := setup
MAKEFLAGS += --no-print-directory
export PATH := $(CURDIR)/.venv/bin:$(PATH)

C_FILES = $(wildcard traffic/src/*.[ch] traffic/engines/*.[ch] traffic/tests/*.[ch] traffic/fuzz/*.[ch])
PYTHON_DIRS = $(wildcard src tests tools bench)

FUZZ = -runs=100000 -max_total_time=30 -max_len=4096 -verbosity=0 -print_final_stats=1
CLANG ?= clang-14
CLANG_FORMAT ?= clang-format-14
CLANG_TIDY ?= clang-tidy-14

.PHONY: setup
setup: ## install what is missing, build both commands into .venv/bin
	@tools/setup.sh

.PHONY: demo
demo: setup ## first measurements: campaigns/demo.yaml, and bypass.yaml where DPDK and hugepages are
	.venv/bin/switchmark run campaigns/demo.yaml
	.venv/bin/switchmark run campaigns/bypass.yaml || [ $$? -eq 3 ]

.PHONY: test
test: setup build/sanitize ## every test: unit, contract, golden, netns, root
	.venv/bin/python -m pytest -v --durations=10 tests $(PYTEST)

.PHONY: soak
soak: setup ## what is injected must be named in 19 of 20 tries; takes minutes on a quiet machine
	SWITCHMARK_SOAK=20 .venv/bin/python -m pytest -v tests/root/test_truth.py $(PYTEST)

.PHONY: check
check: setup ## formats, lints and types, of Python and C; the structure of the code
	@$(MAKE) --keep-going check-python check-types check-c check-tidy check-fuzz check-structure

.PHONY: check-python check-types check-c check-tidy check-fuzz check-structure
check-python:
	ruff format --check --quiet $(PYTHON_DIRS)
	ruff check --quiet $(PYTHON_DIRS)
check-types:
	mypy
check-c:
	$(CLANG_FORMAT) --dry-run -Werror $(C_FILES)
check-tidy: build/strict
	cd build/strict && grep -oP '"file": "\K[^"]+' compile_commands.json | grep -E 'traffic/(src|engines)/' | \
		sort -u | xargs -n 1 -P $$(nproc) $(CLANG_TIDY) --quiet -p .
check-fuzz: build/strict
	@mkdir -p build/corpus/frame build/corpus/command
	build/strict/traffic/fuzz_frame $(FUZZ) build/corpus/frame
	build/strict/traffic/fuzz_command $(FUZZ) build/corpus/command traffic/fuzz/commands
check-structure:
	.venv/bin/python -m pytest -q tests/unit/test_structure.py tests/unit/test_packaging.py

.PHONY: fix
fix: setup ## rewrite files as the formatters want them
	ruff check --fix $(PYTHON_DIRS)
	ruff format $(PYTHON_DIRS)
	$(CLANG_FORMAT) -i $(C_FILES)

.PHONY: golden
golden: setup ## rewrite the golden files; review the diff
	.venv/bin/python -m pytest -q --golden-rewrite tests/golden

.PHONY: bench
bench: setup ## benchmarks of switchmark itself, against its peers
	.venv/bin/python -m bench

.PHONY: docs
docs: setup ## write docs/reference from the tables
	.venv/bin/python tools/reference.py

.PHONY: clean
clean: ## remove what was built and .venv; run folders stay
	rm -rf build dist .venv .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

# Build folders beside the wheel's. Meson configures again by itself; compiling is always asked
# for, and does nothing when nothing changed.
.PHONY: build/sanitize build/strict
build/sanitize: | setup
	@[ -f $@/build.ninja ] || meson setup $@ -Dbuildtype=debugoptimized -Db_sanitize=address,undefined
	@meson compile -C $@
build/strict: | setup
	@[ -f $@/build.ninja ] || CC=$(CLANG) meson setup $@ -Dbuildtype=debugoptimized -Dwerror=true \
		-Dfuzzers=true -Db_sanitize=address,undefined -Db_lundef=false
	@meson compile -C $@
