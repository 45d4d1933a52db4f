# Everything a person or CI runs. A fresh machine needs Python 3.11+, make and git; nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The front end's libraries, from the npm registry.
FRONT_END := src/coatcheck/ui/static/vendor/parts.txt
# Requirement files pin names, versions and hashes; anything else is refused.
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python
LOCKED := $(INSTALL) --require-hashes --requirement

# Tests start hundreds of processes: keep compiled files even if the environment says otherwise.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-run run test lint docs unasync chaos bench bench-postgres lock sbom audit clean

help:
	@echo "make run          set up, start the server and run one real job (ONCE=1: then exit)"
	@echo "make test         set up, then run lint, types, layers and every test"
	@echo "make lint         lint, types and layers only"
	@echo "make docs         build the documentation site into site/; a broken link fails"
	@echo "make unasync      generate the synchronous client from the asynchronous one"
	@echo "make chaos        fault injection at scale, an hour and a half (CHAOS_SECONDS, CHAOS_SCALE),"
	@echo "                  then a soak of half an hour under mixed load; docs/reliability.md"
	@echo "make bench        benchmarks on SQLite, beside their peers; writes benchmarks/results/"
	@echo "make bench-postgres  the same on PostgreSQL"
	@echo "make lock         write requirements/*.txt again (UPGRADE=1: with the newest versions)"
	@echo "make sbom         write a CycloneDX bill of materials to build/sbom.json"
	@echo "make audit        check every pinned dependency against published advisories"

setup: $(VENV)/.dev $(FRONT_END)
setup-run: $(VENV)/.run $(FRONT_END)

$(BIN)/uv: requirements/tools.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Coatcheck needs Python 3.11 or newer; set PYTHON=/path/to/it"; exit 1; }
	@echo "setting up $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/tools.txt
	@touch $@

$(VENV)/.run: $(BIN)/uv requirements/run.txt pyproject.toml
	@echo "installing the server and its surfaces"
	@$(LOCKED) requirements/run.txt
	@command -v npm >/dev/null || $(LOCKED) requirements/npm.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@$(BIN)/coatcheck fetch-model
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	@echo "installing what the tests need"
	@$(LOCKED) requirements/dev.txt
	@touch $@

$(VENV)/.bench: $(VENV)/.dev requirements/bench.txt
	@$(LOCKED) requirements/bench.txt
	@touch $@

$(FRONT_END): tools/front_end.py | $(VENV)/.run
	@$(BIN)/python tools/front_end.py
	@touch $@

run: setup-run
	@$(BIN)/coatcheck demo $(if $(ONCE),--once)

lint: setup
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports --no-logo

docs: setup
	@$(BIN)/python docs/build.py

unasync: setup
	@$(BIN)/python tools/unasync.py

test: lint
	@$(BIN)/pytest -n 4

chaos: setup
	@$(BIN)/python -m tests.faults.chaos $(FAULTS)
	@$(if $(FAULTS),,$(BIN)/python -m tests.faults.soak)

bench: setup $(VENV)/.bench
	@$(BIN)/python -m benchmarks

bench-postgres: setup $(VENV)/.bench
	@$(BIN)/python -m benchmarks.postgres

lock: $(BIN)/uv
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tools/lock.py $(if $(UPGRADE),--upgrade)

# The scanners have dependencies of their own, so they get an environment of their own.
$(VENV)/audit/.ready: $(BIN)/uv requirements/audit.txt
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)/audit
	@$(BIN)/uv pip install --quiet --python $(VENV)/audit/bin/python --require-hashes -r requirements/audit.txt
	@touch $@

sbom: $(VENV)/audit/.ready
	@mkdir -p build
	@$(VENV)/audit/bin/cyclonedx-py requirements --output-reproducible --pyproject pyproject.toml -o build/sbom.json requirements/run.txt
	@echo "wrote build/sbom.json"

audit: $(VENV)/audit/.ready
	@$(BIN)/python tools/audit.py $(VENV)/audit/bin/pip-audit

clean:
	@rm -rf $(VENV) .bench build dist site
