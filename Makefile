# `make demo` shows it, `make check` is for while you work, `make test` is what CI runs.
PYTHON := .venv/bin/python
STAMP := .venv/.stamp
TESTS_STAMP := .venv/.tests-stamp
SOURCES := packages tests benchmarks tools guests

.PHONY: setup demo surprise check test test-full bench lock clean
.DEFAULT_GOAL := setup

setup: $(STAMP)

$(STAMP): tools/setup requirements/lock.txt $(wildcard packages/*/pyproject.toml)
	tools/setup

$(TESTS_STAMP): $(STAMP)
	REFLEXARC_TESTS=quick tools/setup
	touch $@

demo: setup
	.venv/bin/reflexarc demo

surprise: setup
	.venv/bin/reflexarc demo --surprise || [ $$? -eq 3 ]  # without a terminal it ends as the run is held

check: $(TESTS_STAMP)
	.venv/bin/ruff format --check $(SOURCES)
	.venv/bin/ruff check $(SOURCES)
	for platform in linux darwin; do .venv/bin/mypy --platform $$platform $(SOURCES) || exit 1; done
	.venv/bin/vermin --quiet --target=3.9- --no-tips --violations packages/wire/src packages/agent/src
	.venv/bin/lint-imports
	$(PYTHON) -m pytest -m "not full" tests/unit tests/contract

test: check
	$(PYTHON) -m pytest -m "not full" tests/e2e

test-full: check
	REFLEXARC_TESTS=full tools/setup
	REFLEXARC_TESTS=full $(PYTHON) -m pytest tests

BENCHMARKS := $(wildcard benchmarks/*.py) $(patsubst %/__main__.py,%,$(wildcard benchmarks/*/__main__.py))

bench: $(patsubst benchmarks/%,bench-%,$(basename $(BENCHMARKS)))

# benchmarks/NAME.py or benchmarks/NAME/__main__.py, whose peers are installed by benchmarks/NAME/install
bench-%: setup
	@if [ -x benchmarks/$*/install ]; then benchmarks/$*/install; fi
	$(PYTHON) -m benchmarks.$*

lock: setup
	tools/lock

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
