# Two commands for a fresh Debian 12 (root, git and make are enough): `make demo` and `make test`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
READY := .venv/.ready
HOSTS := .venv/.ready-hosts
# Twice: once for what it does, once for what it thinks of mirrors and of root; errors are shown all the same.
PIP := --quiet --quiet --disable-pip-version-check
# Two at once. A test that hangs is ended by a signal, so that it fails and clears up after itself; a worker that died
# is not replaced, since pytest-xdist hands a file's tests out once and would wait for them for ever.
SHARED := -n 2 --dist loadfile --max-worker-restart 0 --timeout-method signal
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help
help: ## this page
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | while IFS=$$'\t' read -r name text; do printf 'make %-12s%s\n' "$$name" "$$text"; done

.PHONY: demo
demo: venv ## bring up a lab, create alice with a GPU, log in as her (DEMO=host: on this machine's own LXD)
	@packaging/demo.sh

.PHONY: demo-down
demo-down: venv ## take the demo away again
	@packaging/demo.sh down

.PHONY: test
test: venv ## every test, those on a real LXD included
	@LXGPU_MACHINE_RUNS=$${LXGPU_MACHINE_RUNS:-1000} LXGPU_DAY_RUNS=$${LXGPU_DAY_RUNS:-20} \
		$(BIN)/python -m pytest -q $(SHARED) --timeout 600 --ignore tests/hosts

.PHONY: test-hosts
test-hosts: $(HOSTS) ## the roles of ansible/ on a bare Debian, twice, and their playbooks on a lab (minutes; the network)
	@$(BIN)/python -m pytest -q --timeout 900 --timeout-method signal tests/hosts

.PHONY: quick
quick: venv ## the tests that need no LXD
	@$(BIN)/python -m pytest -q $(SHARED) --timeout 60 -m 'not lab' --ignore tests/hosts

.PHONY: check
check: venv ## linters and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

.PHONY: format
format: venv ## let the formatter do its work
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.PHONY: docs
docs: venv ## write anew what the documents take from the code
	@$(BIN)/python packaging/write-docs.py

.PHONY: screenshots
screenshots: venv ## take the pictures of the page in docs/ anew
	@$(BIN)/python packaging/screenshots.py

.PHONY: bench
bench: venv ## the benchmarks: benchmarks/results.json and a table
	@$(BIN)/python -m benchmarks

.PHONY: needs
needs:
	@packaging/install-needs.sh

.PHONY: venv
venv: $(READY) ## the Python environment (.venv) with all that development needs

# Made once, and again when the dependencies change; until then nothing here needs the network.
# An older pip knows no dependency groups.
$(READY): pyproject.toml | needs
	@echo "making .venv (once) ..." >&2
	@[[ -x $(BIN)/python ]] || python3 -m venv .venv
	@$(BIN)/python -m pip install $(PIP) --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install $(PIP) --editable . --group dev
	@touch $@

$(HOSTS): $(READY)
	@$(BIN)/python -m pip install $(PIP) --group hosts
	@touch $@

.PHONY: wheel
wheel: venv ## lxgpu as one file in dist/, for servers
	@rm -f dist/lxgpu-*.whl
	@$(BIN)/python -m pip wheel $(PIP) --no-deps --wheel-dir dist .

.PHONY: clean
clean: ## remove what tools have left (not the lab: `make demo-down`)
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -prune -exec rm -rf {} +
