# Everything a person or CI runs. A fresh machine needs Python 3.11+, make and git; nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# What others wrote for browsers, fetched from npm.
FRONT_END := src/coatcheck/ui/static/vendor/parts.txt

# Thousands of tests, and the hundreds of processes that they start, would compile all there is again
# and again on a machine whose environment forbids Python to keep what it has compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run test lint docs chaos bench bench-postgres clean

help:
	@echo "make run          set up, start the server and put one real job through it (ONCE=1: then exit)"
	@echo "make test         set up, then lint, types, layers and every test"
	@echo "make lint         lint, types and layers only"
	@echo "make docs         the documentation as a site, into site/; a broken link ends it"
	@echo "make chaos        faults in large, an hour and a half (CHAOS_SECONDS, CHAOS_SCALE), then half an hour of"
	@echo "                  mixed load through which nothing may grow; docs/reliability.md"
	@echo "make bench        the benchmarks on SQLite, beside their peers; writes benchmarks/results/"
	@echo "make bench-postgres  the same on PostgreSQL"

setup: $(READY) $(FRONT_END)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Coatcheck needs Python 3.11 or newer; set PYTHON=/path/to/it"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(FRONT_END): tools/front_end.py | $(READY)
	@$(BIN)/python tools/front_end.py
	@touch $@

run: setup
	@$(BIN)/coatcheck demo $(if $(ONCE),--once)

lint: setup
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports --no-logo

docs: setup
	@$(BIN)/python docs/build.py

test: lint
	@$(BIN)/pytest -n 4

chaos: setup
	@$(BIN)/python -m tests.faults.chaos $(FAULTS)
	@$(if $(FAULTS),,$(BIN)/python -m tests.faults.soak)

bench: setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@$(BIN)/python -m benchmarks

bench-postgres: setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@$(BIN)/python -m benchmarks.postgres

clean:
	@rm -rf $(VENV) .bench build dist site
