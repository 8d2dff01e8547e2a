# Two commands do everything: `make demo` and `make test`. Both set up what they need first, without root.
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
# where torch comes from; set TORCH_INDEX for a CPU build (the README says how)
TORCH_INDEX ?=
TORCH := torch==2.13.0
DEMO_ARGS ?=
# a real PyTorch tree for the demo: a git repository, a folder of sources, or a URL
UPSTREAM ?=
TEST_ARGS ?=

.PHONY: help demo test chaos bench lint clean pins sbom audit fuzz
help:
	@echo "make demo    play a pull request through the whole relay   (DEMO_ARGS=--once ends by itself)"
	@echo "             UPSTREAM=DIR or URL plays one of a real PyTorch tree instead"
	@echo "make test    every test, quick layers first                (REQUIRE_ALL=1: no test may skip)"
	@echo "make chaos   every fault in a relay that lives on, an hour: docs/chaos.md    (CHAOS_SEED=1)"
	@echo "make lint    ruff, mypy, import-linter"
	@echo "make pins    deploy/requirements/*.txt again, every package by version and hash"
	@echo "make sbom    what is installed, as CycloneDX: .relay/sbom.json"
	@echo "make audit   the pinned packages in the databases of known vulnerabilities"
	@echo "make fuzz    what reads foreign bytes, under atheris       (FUZZ_SECONDS=60 each)"
	@echo "make clean   remove .venv and what demo and tests left"

demo: $(VENV)/.demo
	$(PY) -m relay.demo $(if $(UPSTREAM),--upstream "$(UPSTREAM)") $(DEMO_ARGS)

test: $(VENV)/.test
	$(PY) tests/layers.py $(TEST_ARGS)

lint: $(VENV)/.test
	$(PY) tests/layers.py lint

$(VENV)/bin/python:
	@found=; for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	  if command -v $$p >/dev/null && $$p -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$p; break; fi; done; \
	if [ -z "$$found" ]; then echo "make: needs Python 3.11 or newer with its venv module (on Debian: python3-venv)" >&2; exit 2; fi; \
	$$found -m venv $(VENV) && $(VENV)/bin/python -m pip install -q 'pip>=25'

$(VENV)/.torch: | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install -q $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $(TORCH)
	@touch $@

$(VENV)/.demo: pyproject.toml $(VENV)/.torch
	$(VENV)/bin/python -m pip install -q -e '.[demo]'
	@touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.torch
	$(VENV)/bin/python -m pip install -q -e '.[test]'
	@touch $@ $(VENV)/.demo

$(VENV)/.security: pyproject.toml $(VENV)/.test
	$(VENV)/bin/python -m pip install -q -e '.[security]'
	@touch $@

pins: $(VENV)/.security
	$(PY) deploy/tools/pins.py

sbom: $(VENV)/.security
	@mkdir -p .relay
	$(PY) -m cyclonedx_py environment --pyproject pyproject.toml --output-reproducible -o .relay/sbom.json $(VENV)/bin/python

audit: $(VENV)/.security
	$(PY) deploy/tools/audit.py

FUZZ_SECONDS ?= 60
fuzz: $(VENV)/.security
	$(PY) tests/fuzz/run.py --seconds $(FUZZ_SECONDS)

CHAOS_SEED ?= 1
CHAOS := $(PY) tests/chaos_run.py --seed $(CHAOS_SEED)
# each goes on where an invariant did not hold: the table says so
chaos: $(VENV)/.test
	@mkdir -p .relay/chaos
	@failed=0; \
	$(CHAOS) --long --database postgresql --json .relay/chaos/postgresql.json || failed=1; \
	$(CHAOS) --long --database sqlite --json .relay/chaos/sqlite.json || failed=1; \
	$(CHAOS) --storm 10000 --database postgresql --json .relay/chaos/storm.json || failed=1; \
	$(PY) tests/chaos_run.py --table .relay/chaos/*.json && exit $$failed

clean:
	rm -rf $(VENV) .relay .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
