PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: demo test test-slow lint types ci lock clean

# The three reports the tool began with: what check says, what apply would change, and the proof of it.
demo: $(STAMP)
	@PATH="$(abspath $(BIN)):$$PATH" bash examples/demo.sh

test: $(STAMP)
	$(BIN)/python -m pytest -m "not slow"

# Every fixture and every repair of one really runs: about half an hour on two cores.
test-slow: $(STAMP)
	$(BIN)/python -m pytest -m slow

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(STAMP)
	$(BIN)/mypy

ci: lint types test

$(STAMP): requirements-dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(STAMP)

# Pins the versions anew; needs uv.
lock:
	uv pip compile --universal --python-version 3.10 --no-header --no-annotate --no-emit-index-url \
		--group dev --output-file requirements-dev.lock pyproject.toml

clean:
	rm -rf $(VENV) .demo dist build
