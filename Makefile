# Everything one does with a checkout; `make` alone lists it.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check --no-input
TESTS ?= tests
PROCESSES ?= 4
MINUTES ?= 10
SEED ?= 1
PART ?= 1/5
BENCHMARKS := startup syntax replies dns throttle engine library single_validate download sheets pages

# Compiled once: a machine where this is set would compile the tests in every process of theirs.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install check fmt unit unit-first unit-second test fuzz soak mutate cover dev demo bench alarms clients dist lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(READY) ## set up .venv with exactly what requirements.lock says

# Runs again only when what is to be installed has changed. The lock names everything; told to look for more, the pip
# that comes with Python 3.11 takes a newer release of what another package asks for with an extra, and has no hash of it.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Mailsift needs Python 3.11 or newer: make PYTHON=...")'
	@echo "setting up .venv"
	@$(PYTHON) -m venv .venv
	@$(PIP) install --root-user-action=ignore --no-deps --require-hashes --requirement requirements.lock
	@$(PIP) install --root-user-action=ignore --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m pip --disable-pip-version-check check
	@touch $@

check: $(READY) ## lint, types and architecture
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-logo
	$(BIN)/deptry .
	$(BIN)/vulture

fmt: $(READY) ## format, sort imports, mend what a linter can mend
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format --quiet .

# One thread for polars: the frames are small, and the processes have the cores.
unit test cover: export POLARS_MAX_THREADS := 1

# Two halves side by side, for nothing waits here: those of these folders take about as long as all others, and hardly
# anything that one half imports and compiles does the other one need. Handing out file by file took some 10 % more CPU.
unit: $(READY) ## the tests that start no server: for every save (with many cores: PROCESSES=4 for each half)
	@$(MAKE) --no-print-directory --jobs=2 unit-first unit-second

FIRST_HALF := $(patsubst %,tests/unit/%,accounts api events jobs sandbox storage)
unit-first: HALF := $(FIRST_HALF)
unit-second: HALF := tests/unit $(FIRST_HALF:%=--ignore=%)
unit-first unit-second: PROCESSES := 0
unit-first unit-second: $(READY)
	$(BIN)/pytest --quiet --numprocesses=$(PROCESSES) --no-loadscope-reorder $(HALF)

# Files in their own order: by the number of tests, those with few and long ones would be left for the end.
test: $(READY) $(if $(filter tests,$(TESTS)),check) ## check, then all tests; only some: make test TESTS=tests/unit/jobs
	$(BIN)/pytest --quiet --numprocesses=$(PROCESSES) --no-loadscope-reorder $(TESTS)

fuzz: $(READY) ## foreign bytes and properties, with new seeds each time, until the time is up: make fuzz MINUTES=60
	@end=$$(( $$(date +%s) + 60 * $(MINUTES) )); while [ $$(date +%s) -lt $$end ]; do \
		$(BIN)/pytest --quiet --timeout=0 --hypothesis-profile=fuzz tests/fuzz || exit 1; \
		$(BIN)/pytest --quiet --timeout=0 --hypothesis-profile=fuzz -m hypothesis tests/unit || exit 1; done

soak: $(READY) ## everything at once, with faults by a seeded dice: make soak MINUTES=2 SEED=7 (30 minutes otherwise)
	$(BIN)/python -m tests.support.soak --minutes $(if $(filter file,$(origin MINUTES)),30,$(MINUTES)) --seed $(SEED)

mutate: $(READY) ## break the product in small ways and see whether its tests notice: make mutate PART=2/5
	@$(BIN)/python -m tests.support.mutate --part $(PART)

# Without the test of the API's memory, of which counting takes a part.
cover: $(READY) ## all tests, and which lines none of them reaches (htmlcov/index.html)
	$(BIN)/pytest --quiet --deselect tests/integration/api/test_api_memory.py --numprocesses=$(PROCESSES) --no-loadscope-reorder --cov --cov-report=html --cov-report=term:skip-covered $(TESTS)

dev: $(READY) ## API, worker and sandbox on loopback, started anew when a file changes
	@$(BIN)/python -m tests.support.dev

demo: $(READY) ## validate a generated list on a mail internet in a box
	@$(BIN)/python -m mailsift demo

bench: $(READY) ## measure, side by side with what one would write instead
	@for name in $(BENCHMARKS); do $(BIN)/python -m benchmarks.$$name || exit 1; done

alarms: $(READY) ## write Prometheus' rules and the runbook anew from the table of alarms
	@$(BIN)/mailsift ops alarm-rules > deploy/prometheus/alerts.yml
	@$(BIN)/mailsift ops alarm-rules --runbook > docs/runbook.md

clients: $(READY) ## the clients in build/clients, made from what the API says of itself; needs npm
	@PYTHON=$(BIN)/python .ci/install-generators
	@$(BIN)/python clients/generate.py build/clients
	@cd build/clients/typescript && node_modules/.bin/tsc
	@cd build/clients/n8n && PATH="$$PWD/node_modules/.bin:$$PATH" npm run --silent build

dist: $(READY) $(if $(shell command -v npm),clients) ## wheels, sdists and the npm package in dist/
	@rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(if $(shell command -v npm),,@echo "no npm here: the clients are left out")
	$(if $(shell command -v npm),for one in python listmonk; do $(BIN)/python -m build --no-isolation --outdir dist build/clients/$$one || exit 1; done)
	$(if $(shell command -v npm),for one in typescript n8n; do (cd build/clients/$$one && npm pack --silent --pack-destination ../../../dist) || exit 1; done)

# async-timeout: redis wants it on Python before 3.11.3, and pip-compile sees only the Python it runs on.
lock: $(READY) ## write requirements.lock anew from pyproject.toml
	@echo 'async-timeout>=5' | $(BIN)/pip-compile --quiet --all-extras --strip-extras --allow-unsafe \
		--generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-trusted-host \
		--no-emit-find-links --output-file requirements.lock pyproject.toml -

clean: ## remove .venv and every cache
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage* htmlcov build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
