# Two commands on a fresh machine: `make demo` and `make test`. Each installs what it needs.
VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= python3
# More than there are cores: what takes long waits for most of its time.
JOBS ?= 4
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --no-loadscope-reorder --durations 10
LINTED := src tests bench scripts examples
# The tests start Python some thousand times: what it compiles is kept, and outside of the tree.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(abspath $(VENV))/pycache
INSTALL := $(BIN)/python -m pip install -q --disable-pip-version-check

.PHONY: help setup demo test slow test-horovod check format bench docs lock audit release-check clean

help:  ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.runtime  ## the virtual environment with the `schedulearn` command

demo: $(VENV)/.runtime  ## real training jobs, queued, run and shown live, in under two minutes
	$(BIN)/python scripts/demo.py

test: $(VENV)/.dev system-packages  ## every test but the long ones
	$(MAKE) --no-print-directory lint
	-@scripts/build-horovod --if-built
	scripts/test $(PYTEST) -m "not long"

slow: $(VENV)/.dev  ## the long tests, then random faults on the real service, with databases and engines: SEEDS=50 schedules, about half an hour
	$(PYTEST) -m long
	$(BIN)/python -m bench outside --seeds $(or $(SEEDS),50)

test-horovod: $(VENV)/.dev  ## elastic Horovod; builds it once (about ten minutes), then keeps the wheel
	scripts/build-horovod
	$(PYTEST) -v tests/executors/test_horovod.py tests/e2e/test_horovod.py

check: JOBS := 2
check: $(VENV)/.dev lint  ## format, lint, types, imports, and the quick tests: no Docker, no browser, nothing slow
	$(PYTEST) -m "not (long or slow or docker or browser)" -x -q

lint: $(VENV)/.dev
	$(BIN)/ruff format --check -q $(LINTED)
	$(BIN)/ruff check -q $(LINTED)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.dev  ## put the code into shape, and the reference with it
	$(BIN)/ruff format -q $(LINTED)
	$(BIN)/ruff check -q --fix $(LINTED)
	$(BIN)/python scripts/reference.py --write

docs: $(VENV)/.dev  ## the documentation as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

bench: $(VENV)/.dev  ## the figures, as tables
	$(BIN)/python -m bench

lock:  ## requirements/*.txt anew from pyproject.toml; UPGRADE=1 takes the newest versions
	$(PYTHON) scripts/lock $(if $(UPGRADE),--upgrade)

audit: $(VENV)/.dev  ## are there holes known in what is locked? asks the advisories of the day
	@$(BIN)/python scripts/audit || [ $$? = 3 ]

release-check: $(VENV)/.dev lint  ## what a release needs: the wheel starts in an empty environment, the pages are true
	$(PYTEST) tests/release tests/docs

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: lint system-packages
system-packages:
	@scripts/system-packages

$(VENV)/.venv:
	$(PYTHON) -m venv $(VENV)
	@touch $@

# Every version is the one of requirements/, and every file has one of its hashes; pip and the builder are among them.
$(VENV)/.runtime: $(VENV)/.venv pyproject.toml requirements/runtime.txt
	$(INSTALL) --require-hashes -r requirements/runtime.txt
	$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

# torch and tensorflow come last, without hashes: which build is right depends on the machine.
$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	$(INSTALL) --require-hashes -r requirements/dev.txt
	$(INSTALL) --no-build-isolation -e '.[torch,tensorflow]'
	@touch $@
