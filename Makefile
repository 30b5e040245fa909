# The two commands: `make demo` and `make test`. Everything is installed into .venv by the first one that runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST_WORKERS ?= 2

.PHONY: demo pictures test test-second test-all test-again test-lowest lint docs release sbom soak fuzz kills bench bench-scale browser exiftool clean

# Real pictures: Debian's stamps of Tux Paint, from the installed package, or downloaded once and unpacked (no root).
STAMPS := tuxpaint-stamps-default
CACHE := demo/.cache
PICTURES := $(or $(wildcard /usr/share/tuxpaint/stamps),$(CACHE)/stamps)
APT := apt-get -qq -o Acquire::http::Timeout=15 -o Acquire::Retries=0

demo: $(VENV)/.installed-demo pictures
	$(BIN)/likewise demo --output demo $$([ ! -d $(PICTURES) ] || echo --pictures $(PICTURES))

# Sounds are most of the package and are left out. Lists of packages are updated only where that needs no password.
UPDATE := $(if $(filter 0,$(shell id -u)),,sudo -n) $(APT) update
pictures:
	@[ -d $(PICTURES) ] || { command -v apt-get dpkg-deb >/dev/null \
	  && echo "make: downloading pictures for the demo, once (Debian's $(STAMPS), 161 MB)" \
	  && rm -rf $(CACHE) && mkdir -p $(CACHE)/new && cd $(CACHE) \
	  && { $(APT) download $(STAMPS) || { $(UPDATE) && $(APT) download $(STAMPS); }; } >/dev/null 2>&1 \
	  && dpkg-deb --fsys-tarfile $(STAMPS)_*.deb | tar -x -C new --wildcards '*.png' \
	  && mv new/usr/share/tuxpaint/stamps . && rm -rf new $(STAMPS)_*.deb; \
	} || echo "make: the pictures could not be downloaded"

# Tests write thousands of small files and sync each of them: in memory, where there is enough of it.
SCRATCH := $(shell [ -w /dev/shm ] && [ $$(df --output=avail /dev/shm | tail -1) -gt 4000000 ] && echo PYTEST_DEBUG_TEMPROOT=/dev/shm)
# One BLAS thread in each test process: two processes with two threads each only wait for each other. Bytecode is kept,
# whatever the surroundings say, and only the plugins that are used are loaded: all that are installed take 10 s a process.
# A test that hangs fails after five minutes.
PYTEST := $(SCRATCH) OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 \
  $(BIN)/python -m pytest -p xdist -p _hypothesis_pytestplugin -p pytest_timeout --timeout 300 --timeout-method thread
PARALLEL := -n $(PYTEST_WORKERS) --dist worksteal

# Two tiers. `make test` runs the first one, and lint at the same time. The second one has what is marked `second`: the large
# numbers of damaged files, kills and faults, scikit-learn's checks of every rival, Dask, the other vector databases, the
# examples and the code on the pages of the site. `make test-all` runs both, as continuous integration does.
test: $(VENV)/.installed-dev browser exiftool
	@mkdir -p build; $(MAKE) --no-print-directory lint >build/lint.txt 2>&1 & lint=$$!; \
	  $(PYTEST) $(PARALLEL) -m "not second"; tests=$$?; \
	  wait $$lint; linted=$$?; cat build/lint.txt; exit $$((tests | linted))

test-second: $(VENV)/.installed-dev browser exiftool
	$(PYTEST) $(PARALLEL) -m second

test-all: test test-second

# The tests that failed, once more and one after the other: what fails then is not the machine's load.
test-again: $(VENV)/.installed-dev
	$(PYTEST) --last-failed --last-failed-no-failures none

# The oldest versions of all dependencies that pyproject.toml allows, in an environment of their own: tests of what users run.
# Where memory is short, older versions of Pillow end the process that decodes, which is replaced: one test sees the difference.
LOWEST := build/lowest
test-lowest:
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --editable '.[images,words,serve,parquet]' \
	  pytest==8.3.5 pytest-timeout==2.3.1 hypothesis==6.112.0 httpx==0.28.1 pandas==2.2.3 polars==1.9.0
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -m "not second" --timeout 300 --ignore tests/search/stores \
	  --deselect tests/pictures/test_decoding.py::test_a_picture_that_does_not_fit_frees_its_memory \
	  tests/utils tests/rows tests/learn/test_similarity.py tests/learn/test_slr.py tests/search tests/pictures tests/cli tests/serve tests/teach

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive src
	$(BIN)/python tools/audit.py

# The site, in build/site: open build/site/index.html. A warning is an error, and so is a link inside the site that leads
# nowhere or anything fetched from elsewhere. GALLERY=0 leaves the examples unrun.
docs: $(VENV)/.installed-docs
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/sphinx-build -q -W --keep-going -d build/doctrees docs build/site
	$(BIN)/python tools/check_site.py build/site

# Wheel and sdist in dist/, tried in a fresh environment without the repository; licences and bill of materials in build/release.
release: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[release]'
	$(BIN)/python tools/release.py

# What is installed, as a CycloneDX bill of materials.
sbom: $(VENV)/.installed-dev
	$(BIN)/cyclonedx-py environment $(VENV) --pyproject pyproject.toml --output-reproducible -o sbom.json
	@echo "make: sbom.json lists $$(grep -c '"bom-ref"' sbom.json) components"

# An honest load beside a hostile client on a real server; passes if memory stays flat and the honest see no 5xx.
MINUTES ?= 60
soak: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks.soak --minutes $(MINUTES)

# The page is tested in Debian's Chromium, and sidecars by exiftool; where one cannot be installed, its tests are skipped
# and say so.
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)
APT_INSTALL := $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends
exiftool:
	@command -v exiftool >/dev/null || { command -v apt-get >/dev/null \
	  && $(SUDO) apt-get update -qq && $(APT_INSTALL) libimage-exiftool-perl >/dev/null; } \
	  || echo "make: no exiftool, and it could not be installed: some tests of sidecars are skipped"

browser:
	@command -v chromium-headless-shell >/dev/null \
	  || { apt-cache show chromium-headless-shell && $(APT_INSTALL) chromium-headless-shell; } >/dev/null 2>&1 \
	  || command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { command -v apt-get >/dev/null \
	  && $(SUDO) apt-get update -qq && { $(APT_INSTALL) chromium-headless-shell || $(APT_INSTALL) chromium; } >/dev/null; } \
	  || echo "make: no Chromium, and it could not be installed: the tests of the page are skipped"

# N damaged files of every kind that is read, or of one (KIND="index, hnsw"); SEED chooses others. make test reads 25 of each, make test-second 150.
# And EXAMPLES tables of all that a fit must take; make test tries 12, make test-second 200.
N ?= 20000
SEED ?= 1
EXAMPLES ?= 2000
fuzz: $(VENV)/.installed-dev
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m tests.hostile.kinds $(N) $(SEED) $(if $(KIND),"$(KIND)")
	LIKEWISE_EXAMPLES=$(EXAMPLES) $(PYTEST) tests/learn/test_any_data.py -k many_more --timeout 3600

# kill -9 at any moment of features, fit, index, lesson, feedback, export and paper: nothing may be lost.
KILLS ?= 200
kills: $(VENV)/.installed-dev
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m tests.hostile.kills $(KILLS) $(SEED)

# All ratios on one page (build/bench.md, bench.png), compared with the last one stored; STORE=1 makes it the last.
bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks $(if $(STORE),--store)

# An hour and a half and 20 GB, all of docs/large-data.md: a million rows on disk, all pairs of 71,000 rows, a Dask cluster, a
# kernel of a million rows, killed and resumed, a server of a million items, ten million from the command line, cost against
# the number of items, features of 100,000 pictures (PHOTOS=FOLDER, or the demo's). STORE=1 keeps tables and plots in docs.
SCALE := $(BIN)/python -m benchmarks
stored = $(if $(STORE),--store $(1))
plot = --picture $(if $(STORE),docs/images,build)/$(1).png
bench-scale: $(VENV)/.installed-dev $(if $(PHOTOS),,pictures) browser
	mkdir -p build
	$(SCALE).scale_disk $(call plot,scale) $(call stored,scale-disk)
	$(SCALE).scale_imagenet50 $(call stored,scale-imagenet50)
	$(SCALE).scale_dask $(call stored,scale-dask)
	$(SCALE).serve_million $(call stored,serve-million)
	rm -rf build/ten-million && mkdir build/ten-million
	$(SCALE).ten_million --folder build/ten-million $(call stored,ten-million)
	$(SCALE).scale_cost $(call plot,cost) --largest build/ten-million/whole.index $(call stored,scale-cost)
	$(SCALE).scale_features $(or $(PHOTOS),$(PICTURES)) $(call stored,scale-features)
	$(SCALE).scale_anchored $(call stored,scale-anchored)
	rm -rf build/ten-million

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[photos,words]'
	touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[images,words,serve,milvus,postgres,qdrant,lancedb,dask,paper,dev]'
	touch $@ $(VENV)/.installed-demo

$(VENV)/.installed-docs: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) build demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
