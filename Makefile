# Every step works from a clean clone and from any state after it; what is done already is not done again.
# Needed beforehand: Python 3.11 or later with pip. A C compiler makes it faster, Java and Maven let `make test` ask the original.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
# Hashes and versions come from the lock files; without isolation a build uses the pinned tools too.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCKED := $(INSTALL) --require-hashes --no-build-isolation
KERNEL := $(wildcard src/cometmq/kernel/fast/*.pyx src/cometmq/kernel/fast/*.pxd)
UP ?=
TESTS ?= tests

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run test check bench soak docs format lock clean

help:
	@echo "make run    start a node here, proved to work (UP='--data DIR ...' adds options)"
	@echo "make setup  .venv with the package and the tools, without Spark"
	@echo "make test   every test (TESTS=path for fewer); installs Spark"
	@echo "make check  format, lint, types, layers, documentation"
	@echo "make soak   the long forms of the tests"
	@echo "make bench  the benchmark, beside the C mark and the original"
	@echo "make docs   the documentation as a site, in site/"
	@echo "make clean  remove what the others made"

$(VENV)/venv.stamp:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed, and not found" >&2; exit 1; }
	@# Debian's Python lacks ensurepip until python3-venv is installed; its pip can do that part.
	$(PYTHON) -m venv --clear $(VENV) >/dev/null 2>&1 || { \
		$(PYTHON) -m venv --clear --without-pip $(VENV) && \
		$(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }
	touch $@

$(VENV)/run.stamp: requirements/run.lock | $(VENV)/venv.stamp
	$(LOCKED) -r $<
	touch $@

# The compiled kernel is optional: where no compiler is, or it fails, the plain one serves.
$(VENV)/package.stamp: $(VENV)/run.stamp pyproject.toml $(wildcard setup.py) $(KERNEL)
	$(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/dev.stamp: requirements/dev.lock $(VENV)/run.stamp
	$(LOCKED) -r $<
	touch $@

$(VENV)/spark.stamp: requirements/spark.lock $(VENV)/dev.stamp
	$(LOCKED) -r $<
	touch $@

setup: $(VENV)/package.stamp $(VENV)/dev.stamp

run: $(VENV)/package.stamp
	$(BIN)/cometmq up $(UP)

test: setup $(VENV)/spark.stamp
	$(BIN)/python -m pytest $(TESTS)

check: setup $(VENV)/spark.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) docs

SOAK := COMETMQ_SEEDS=5000 COMETMQ_HOSTILE=100000 COMETMQ_KILLS=30
soak: setup $(VENV)/spark.stamp
	$(SOAK) $(BIN)/python -m pytest --soak --timeout 0 $(TESTS)
	$(SOAK) COMETMQ_KERNEL=pure $(BIN)/python -m pytest --soak --timeout 0 tests/simulation tests/integration tests/interop
	COMETMQ_PEER=5.5.0 $(BIN)/python -m pytest tests/interop/test_peer.py -k ours
	COMETMQ_PEER=4.9.7 $(BIN)/python -m pytest tests/interop/test_client.py -k original

bench: setup
	$(BIN)/python -m bench.run

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The newest versions that pyproject.toml allows, for every platform. One resolution rules all three files.
LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header
lock: | $(VENV)/venv.stamp
	$(INSTALL) uv
	$(LOCK) --upgrade --extra dev --extra spark pyproject.toml --output-file requirements/spark.lock
	$(LOCK) --extra dev -c requirements/spark.lock pyproject.toml --output-file requirements/dev.lock
	printf 'setuptools\nCython\n' | \
		$(LOCK) -c requirements/spark.lock pyproject.toml - --output-file requirements/run.lock

clean:
	rm -rf $(VENV) build site .pytest_cache .mypy_cache .ruff_cache src/*.egg-info
	find src -name '*.so' -delete
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
