# The two commands: `make demo` and `make test`. Everything is installed into .venv by the first one that runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST_WORKERS ?= 2

.PHONY: demo test lint bench clean

demo: $(VENV)/.installed-demo
	$(BIN)/likewise demo --output demo

# One BLAS thread in each test process: two processes with two threads each only wait for each other.
test: $(VENV)/.installed-dev lint
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[images,serve,milvus,paper,dev]'
	touch $@ $(VENV)/.installed-demo

clean:
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache
