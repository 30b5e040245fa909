# The two commands: `make demo` and `make test`. Everything is installed into .venv by the first one that runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST_WORKERS ?= 2

.PHONY: demo test lint bench bench-scale browser clean

demo: $(VENV)/.installed-demo
	$(BIN)/likewise demo --output demo

# One BLAS thread in each test process: two processes with two threads each only wait for each other.
test: $(VENV)/.installed-dev browser lint
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The page is tested in Debian's Chromium; where it cannot be installed those tests are skipped and say so.
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { command -v apt-get >/dev/null \
	  && $(SUDO) apt-get update -qq && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	  || echo "make: no Chromium, and it could not be installed: the tests of the page are skipped"

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks

# Minutes and gigabytes: a million rows on disk, and all pairs of 71,000 rows.
bench-scale: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks.scale_disk
	$(BIN)/python -m benchmarks.scale_imagenet50
	$(BIN)/python -m benchmarks.scale_dask

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[images,serve,milvus,dask,paper,dev]'
	touch $@ $(VENV)/.installed-demo

clean:
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
