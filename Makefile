# Every target makes .venv when it is missing, installs what it needs and nothing twice.
# `make help` lists the targets.

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
EXTRAS_DEV := dev,oracle,pettingzoo,sb3,notebooks,dask,parquet
TEST_JOBS ?= 2
# The Python to build .venv with. Empty: the first of python3.11, python3.12, python3.13, python3 that is 3.11 or newer.
PYTHON ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test test-slow test-rules lint format bench venv clean

# An active virtual environment, or settings made for another one, must not reach the Python in .venv.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV CONDA_PREFIX
unexport PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.core  ## train a small agent, then a tournament with it and a picture of the result (a few minutes)
	$(BIN)/cribbage train configs/train/quickstart.yaml --overwrite
	$(BIN)/cribbage tournament configs/tournament/quickstart.yaml --overwrite

# One thread for each worker's PyTorch: the workers already fill the cores.
PYTEST := OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(PY) -m pytest

test: $(VENV)/.dev  ## the test suite
	$(PYTEST) -n $(TEST_JOBS) --dist loadfile

test-slow: $(VENV)/.dev  ## the tests that take minutes
	$(PYTEST) -n $(TEST_JOBS) --dist loadfile -m slow

test-rules: $(VENV)/.dev  ## the engine against the plain reference, 10 million deals
	$(PYTEST) -n $(TEST_JOBS) tests/test_engine_reference.py -m slow

lint: $(VENV)/.dev  ## ruff (rules and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev  ## let ruff fix and format what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench  ## how fast the engine and the environments are, beside OpenSpiel
	$(BIN)/cribbage bench

venv: $(VENV)/.dev  ## only set .venv up, with everything for development

clean:  ## remove .venv, caches and build output; runs/ stays
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name .git -prune -o -name runs -prune -o -type d \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

# --- .venv ------------------------------------------------------------------------------------------------------
# A stamp is written after an install that went through. While one is under way .venv/.unfinished is there: finding it
# later means that the install was broken off, and what it left cannot be trusted, so .venv is built anew.

# $(call pip,arguments) is silent, with what pip said in .venv/pip.log and the end of it on the screen if it failed.
pip = $(PY) -m pip install --disable-pip-version-check --progress-bar off -c constraints.txt $(1) >>$(VENV)/pip.log 2>&1 \
	|| { tail -n 15 $(VENV)/pip.log; echo "error: the install failed; all that pip said is in $(VENV)/pip.log"; exit 1; } >&2

# $(call install,the requirement,what to say)
define install
	@echo "Installing $(2) into $(VENV). The first time takes 1 to 5 minutes, most of it PyTorch (log: $(VENV)/pip.log)."
	@touch $(VENV)/.unfinished
	@$(call pip,setuptools)
	@$(call pip,--no-build-isolation -e "$(1)")
	@rm -f $(VENV)/.unfinished
endef

$(VENV)/.core: $(VENV)/.ready pyproject.toml constraints.txt
	$(call install,.,cribbage-lab)
	@touch $@

$(VENV)/.bench: $(VENV)/.ready pyproject.toml constraints.txt
	$(call install,.[oracle],cribbage-lab and OpenSpiel)
	@touch $(VENV)/.core $@

$(VENV)/.dev: $(VENV)/.ready pyproject.toml constraints.txt
	$(call install,.[$(EXTRAS_DEV)],cribbage-lab and the development tools)
	@touch $(VENV)/.core $(VENV)/.bench $@

# An install broken off, or a Python that is no longer there: look at .venv again, stamps or not.
ifneq ($(shell [ -x $(PY) ] && [ ! -e $(VENV)/.unfinished ] || echo broken),)
.PHONY: $(VENV)/.ready
endif
$(VENV)/.ready:
	@VENV="$(VENV)" PYTHON="$(PYTHON)" ACTIVE="$(VIRTUAL_ENV)" bash tools/make_venv.sh
	@touch $@
