# The verbs of this repository; `make help` lists them. `make` alone is `make setup`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := setup
MAKEFLAGS += --no-print-directory
export PATH := $(CURDIR)/.venv/bin:$(PATH)

C_FILES = $(wildcard traffic/src/*.[ch] traffic/engines/*.[ch] traffic/tests/*.[ch] traffic/fuzz/*.[ch] agent/*/*.[ch])
PYTHON_DIRS = $(wildcard src tests tools bench)

FUZZ_SECONDS = 30
FUZZ = -runs=100000 -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -verbosity=0 -print_final_stats=1
# A life of the program takes 30 ms: in its time the fuzzer would not make short rows of commands long.
LONG_ROWS = for i in {1..100}; do head -c 1024 /dev/urandom >$(1)/long-$$i; done
CLANG ?= clang-14
CLANG_FORMAT ?= clang-format-14
CLANG_TIDY ?= clang-tidy-14

.PHONY: setup
setup: ## install what make demo needs, build both commands; PARTS="docker lxc" adds environments
	@tools/setup.sh $(PARTS)

.PHONY: setup-all
setup-all: ## install lxc, docker, podman, cni, vm, noises, counters, ssh, check, peers, labs; not page
	@tools/setup.sh all

.PHONY: demo
demo: setup ## first measurements: campaigns/demo.yaml, and bypass.yaml where DPDK and hugepages are
	@.venv/bin/python tools/demo.py

.PHONY: dist
dist: ## a release, into dist/: wheels for x86-64 and aarch64 (or ARCH="x86_64"), source, SBOM, checksums
	@tools/dist.sh $(ARCH)

.PHONY: bare
bare: ## as root: make demo and make test, or BARE_RUN="make check", on a bare Debian or Ubuntu
	@tools/bare.sh $(if $(BARE_ROOT),--root "$(BARE_ROOT)") $(if $(BARE_RUN),'$(BARE_RUN)')

.PHONY: deb
deb: setup ## a Debian package for this release, without root, into build/deb
	@tools/deb.sh

.PHONY: image
image: setup ## as root: container images for podman and docker, into build/image; IMAGES=small one of them
	@tools/image.sh $(IMAGES)

.PHONY: lab-image
lab-image: ## as root: the Debian that machines of the host file boot (700 MB, into ~/.cache/switchmark)
	@tools/lab-image.sh $(LAB_IMAGE)

# Several tests at a time, each file in one lane (tests/lanes.py): three on two CPUs, as tests wait while
# parts have CPUs of their own. The rewritten tests are kept for the next time, whatever Python is told
# of others.
LANES = 3
TESTS = PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest -n $(LANES) --dist loadfile --no-loadscope-reorder

# The files of the tests with real frames that test-fast runs: to read all others takes seconds.
SMOKE = $$(grep -l 'mark\.smoke' tests/netns/*.py tests/root/*.py)
FAST_FOLDERS = tests/unit tests/contract tests/golden tests/replay

.PHONY: test-fast
test-fast: setup ## tests of single parts, and a few with real frames: two minutes
	$(TESTS) -q -m "not slow and not further and not ((netns or root) and not smoke)" $(FAST_FOLDERS) $(SMOKE) $(PYTEST)

.PHONY: test
test: setup-all build/sanitize ## every test but further combinations, three at a time; LANES=1 one at a time
	$(TESTS) -v --durations=10 -m "not further" tests $(PYTEST)

.PHONY: test-all
test-all: setup-all build/sanitize ## every test, in every combination; a selection may match nothing
	$(TESTS) -v --durations=10 tests $(PYTEST) || [ $$? -eq 5 ]

.PHONY: soak
soak: setup ## what is injected must be named in 19 of 20 tries; takes minutes on a quiet host
	SWITCHMARK_SOAK=20 .venv/bin/python -m pytest -v tests/root/test_truth.py $(PYTEST)

.PHONY: soak-kills
soak-kills: setup ## as root: kill COUNT=20 runs at random, clean up, compare the host; SEED=1 repeats them
	@.venv/bin/python tests/soak_kills.py --count $(or $(COUNT),20) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only '$(ONLY)')

.PHONY: check
check: setup-all ## formats, lints and types, of Python and C; spelling and links; fuzzers, threads; structure
	@$(MAKE) --keep-going check-python check-docs check-types check-c check-tidy check-fuzz check-threads check-structure fuzz

.PHONY: check-python check-docs check-types check-c check-tidy check-fuzz check-threads check-structure
check-python:
	ruff format --check --quiet $(PYTHON_DIRS)
	ruff check --quiet $(PYTHON_DIRS)
check-docs:
	codespell *.md docs campaigns src tools bench traffic agent
	codespell --ignore-words-list copyin,iif,nam,notin,repport,runn,statuss,swich,switchs,wronly tests
	.venv/bin/python -m pytest -q -m "not slow" tests/unit/test_guide_pages.py tests/unit/test_site.py
check-types:
	mypy
check-c:
	$(CLANG_FORMAT) --dry-run -Werror $(C_FILES)
check-tidy: build/strict
	cd build/strict && grep -oP '"file": "\K[^"]+' compile_commands.json | grep -E '(traffic|agent)/(src|engines)/' | \
		sort -u | xargs -n 1 -P $$(nproc) $(CLANG_TIDY) --quiet -p .
check-fuzz: build/strict
	@mkdir -p build/corpus/{agent,frame,command,control,memif,wire}
	build/strict/traffic/fuzz_frame $(FUZZ) build/corpus/frame
	build/strict/traffic/fuzz_command $(FUZZ) build/corpus/command traffic/fuzz/commands
	build/strict/traffic/fuzz_memif $(FUZZ) build/corpus/memif
	build/strict/agent/fuzz_agent $(FUZZ) build/corpus/agent
	build/strict/agent/fuzz_wire $(FUZZ) build/corpus/wire
	@$(call LONG_ROWS,build/corpus/control)
	build/strict/traffic/fuzz_control $(FUZZ) -len_control=0 -max_len=1024 build/corpus/control
check-threads: build/thread
	@mkdir -p build/corpus/threads
	@$(call LONG_ROWS,build/corpus/threads)
	build/thread/traffic/fuzz_control $(FUZZ) -len_control=0 -max_len=1024 build/corpus/threads
	meson test -C build/thread --no-rebuild --quiet control loop machine merged
	SWITCHMARK_TRAFFIC_BUILD=build/thread .venv/bin/python -m pytest -q tests/contract/test_traffic_protocol.py
check-structure:
	.venv/bin/python -m pytest -q tests/unit/test_structure.py tests/unit/test_packaging.py

.PHONY: fuzz
fuzz: SECONDS = 60
fuzz: SEED = $(shell date +%s)
fuzz: setup-all ## hunt for input that a command calls a bug; SECONDS=600, TARGET=journals, SEED=7 COUNT=1
	PYTHONPATH=src:tests .venv/bin/python -m fuzz $(TARGET) --seconds $(SECONDS) --seed $(SEED) \
		$(if $(COUNT),--count $(COUNT))

.PHONY: fix
fix: PARTS += check
fix: setup ## rewrite files as the formatters want them
	ruff check --fix $(PYTHON_DIRS)
	ruff format $(PYTHON_DIRS)
	$(CLANG_FORMAT) -i $(C_FILES)

.PHONY: golden
golden: setup ## rewrite the golden files; review the diff
	.venv/bin/python -m pytest -q --golden-rewrite tests/golden tests/replay

.PHONY: record
record: setup-all ## as root: record the runs anew that tests/replay replays; NAMES="gate vm" some of them
	@.venv/bin/python tests/record.py $(NAMES)
	@$(MAKE) golden

.PHONY: sessions
sessions: setup-all ## record anew what drivers and programs that no package has say to each other; NAMES=snabb
	@.venv/bin/python tests/sessions.py $(NAMES)
	@$(MAKE) docs

.PHONY: soak-copies
soak-copies: setup ## as root: compare copies of testpmd RUNS=40 times, and one made slower; on a quiet host
	@.venv/bin/python tests/soak_copies.py $(if $(RUNS),--runs $(RUNS))

.PHONY: mutants
mutants: setup ## break important lines one at a time; the fast tests are to notice
	@.venv/bin/python tests/mutants.py

.PHONY: mutate
mutate: setup ## as root: try mutants of ROOM="metrics lab"; SAMPLE=300 SEED=1 draws some; TESTS_OF="golden"
	@.venv/bin/python -m tools.mutate $(ROOM) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) \
		$(if $(JOBS),--jobs $(JOBS)) $(if $(FRESH),--fresh) $(if $(TESTS_OF),--tests $(TESTS_OF))

# In one process, as coverage.py sees what it starts itself.
COVERED = metrics lab searches report
.PHONY: coverage
coverage: setup ## the branches of COVERED="metrics lab searches report" that fast tests take, into build/coverage
	@rm -rf build/coverage
	PYTHONDONTWRITEBYTECODE= .venv/bin/coverage run -m pytest -q -m "not slow and not further" $(FAST_FOLDERS) $(PYTEST)
	@.venv/bin/coverage json -q
	@.venv/bin/coverage html -q
	@.venv/bin/python tools/branches.py build/coverage/branches.json $(COVERED)

.PHONY: simulate
simulate: setup ## simulate what a claimed difference promises, RUNS=1000; writes docs/guide/trust.md
	@.venv/bin/python tools/simulate.py $(if $(RUNS),--runs $(RUNS))

.PHONY: simulate-trend
simulate-trend: setup ## simulate the false alarms of trend, YEARS=200; writes docs/guide/trend.md
	@.venv/bin/python -m tools.simulate_trend $(if $(YEARS),--years $(YEARS))

.PHONY: bench
bench: setup-all ## benchmarks of switchmark itself, against its peers
	.venv/bin/python -m bench

.PHONY: verify
verify: setup ## as root: try SWITCH=NAME with real frames; HOST=NAME there; WRITE=1 keeps what passed
	.venv/bin/python tools/verify.py $(if $(HOST),--host $(HOST)) \
		$(if $(HOST_FILE),--host-file $(HOST_FILE)) $(if $(MORE),--more) $(if $(WRITE),--write) $(SWITCH)

.PHONY: docs
docs: setup ## write docs/reference from the tables
	.venv/bin/python tools/reference.py

.PHONY: pictures
pictures: setup ## measure and draw docs/pictures, those of README and guide; PICTURES="rates" some
	.venv/bin/python tools/pictures.py $(PICTURES)

.PHONY: site
site: setup ## build the site, for a browser without a network: build/site/html/index.html
	@tools/website/install.sh
	@.venv/bin/python -m tools.website

.PHONY: gallery
gallery: setup ## add RUN=folder to the site's gallery as NAME=demo TITLE="The demo" CHARTS=figures
	@.venv/bin/python -m tools.website.gallery "$(RUN)" "$(NAME)" "$(TITLE)" "$(CHARTS)"

.PHONY: clean
clean: ## remove what was built and .venv; run folders stay
	rm -rf build dist .venv .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

# Build folders beside the wheel's. Meson configures again by itself; compiling is always asked
# for, and does nothing when nothing changed.
.PHONY: build/sanitize build/strict build/thread
build/sanitize: | setup-all
	@[ -f $@/build.ninja ] || meson setup $@ -Dbuildtype=debugoptimized -Db_sanitize=address,undefined
	@meson compile -C $@
build/strict: | setup-all
	@[ -f $@/build.ninja ] || CC=$(CLANG) meson setup $@ -Dbuildtype=debugoptimized -Dwerror=true \
		-Dfuzzers=true -Db_sanitize=address,undefined -Db_lundef=false
	@meson compile -C $@
# Without DPDK and AF_XDP, whose libraries are built without the sanitizer: it would not see them
# synchronise.
build/thread: | setup-all
	@[ -f $@/build.ninja ] || CC=$(CLANG) meson setup $@ -Dbuildtype=debugoptimized -Dwerror=true \
		-Dfuzzers=true -Db_sanitize=thread -Db_lundef=false -Ddpdk=disabled -Dxdp=disabled
	@meson compile -C $@
