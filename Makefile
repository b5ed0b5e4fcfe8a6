# make run: the whole pipeline from nothing. make test: everything that must hold. Both set up .venv first, once.
.DEFAULT_GOAL := help
.PHONY: help setup run pretrained paper test test-all check format slow live ui docs docs-serve

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# With CI in the environment `make test` runs the long tests too and counts lines (minutes more); it fails below so many percent of
# components/ and tasks/studies/.
COVERAGE_MIN ?= 90
# How many stages of the paper run side by side, each on its share of the cores.
JOBS ?= 2

# What needs nothing but .venv, as in pyproject.toml.
DEFAULT := not slow and not live and not gpu

export PIP_DISABLE_PIP_VERSION_CHECK := 1

help:
	@echo "make run     set up, run the whole pipeline, say where to look"
	@echo "make pretrained  a small pretrained model learns to support, out of a package: hours, in any number of sittings"
	@echo "make paper   that, then every variant, seed and user beside the published results: hours, in any number of sittings (JOBS=2)"
	@echo "make test    set up, then format, lint, types, import contracts and tests"
	@echo "make test-all  that with the long tests (CI runs these)"
	@echo "make setup   make .venv and install what constraints.txt locks"
	@echo "make check   format, lint, types and import contracts only"
	@echo "make format  rewrite the code in the one format"
	@echo "make slow    the tests that need minutes or a local server"
	@echo "make live    the tests that need vLLM (.venv-vllm, made here if it is missing: several GB)"
	@echo "make ui      the web pages of MLflow and Prefect"
	@echo "make docs    the documentation as a site in build/docs; a broken link or a page that is hard to read is an error (make docs-serve: while you write)"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@sh .ci/setup $(VENV)
	@touch $@

run: setup
	@$(BIN)/rlver run

pretrained: setup
	@$(BIN)/rlver run --variants pretrained

paper: setup
	@$(BIN)/rlver run --variants all --jobs $(JOBS)

check: setup
	@$(BIN)/ruff format --check --quiet . || { echo "error: not in the one format; run: make format" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-cache --no-logo > $(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }
	@echo "format, lint, types and import contracts: good"

test: check
	@$(BIN)/python -m pytest -n 2 $(if $(CI),--cov --cov-report=term --cov-fail-under=$(COVERAGE_MIN),-m 'not long and $(DEFAULT)')

test-all: check
	@$(BIN)/python -m pytest -n 2

format: setup
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

slow: setup
	@$(BIN)/python -m pytest -m slow

live: setup
	@test -f .venv-vllm/locked-by || $(BIN)/rlver serve setup
	@$(BIN)/python -m pytest -m live

ui: setup
	@$(BIN)/rlver ui

# The theme announces its successor at every build; it is pinned.
docs docs-serve: export NO_MKDOCS_2_WARNING := 1
docs: setup
	@mkdir -p build && $(BIN)/python -m benchmarks.readability > build/readability.log || { cat build/readability.log; exit 1; }
	@PYTHONPATH=. $(BIN)/mkdocs build --clean
	@echo "documentation: build/docs/index.html"

docs-serve: setup
	@PYTHONPATH=. $(BIN)/mkdocs serve --dev-addr 127.0.0.1:7800
