# Every target sets up its own environment in .venv; nothing but Python 3.11+ and make is needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo lint test suite smoke bench gpu docs docs-figures docs-check evidence refit clean

$(VENV)/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "jaxroof needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@

demo: $(VENV)/installed  ## sweep a million hypothetical accelerators: sweep.nc, sweep.png and report.html
	$(BIN)/jaxroof sweep sweeps/specs/demo.toml -o sweep.nc
	$(BIN)/jaxroof plot sweep.nc --metric owning_usd_per_million_tokens -o sweep.png
	$(BIN)/jaxroof report sweep.nc -o report.html

lint: $(VENV)/installed  ## style, docstrings and types
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint suite  ## lint and the whole suite; at once with `make --jobs=2 test`

suite: $(VENV)/installed
	$(BIN)/python -m pytest -n auto --dist loadfile

smoke:  ## the wheel in an empty folder, on PYTHON: every verb, README's commands, native code, XLA, a gradient
	$(PYTHON) tests/smoke/install.py $(if $(DEPENDENCIES),--dependencies $(DEPENDENCIES))

# Golden values of sweeps under XLA's optimised programs, those that a GPU would run.
OPTIMISED := --only datasets,efficiencies,production --compiler xla --optimised --numbers --leave-out op_algorithm

bench: $(VENV)/installed  ## points and simulated requests per second beside kept figures, or a checkout AGAINST; values
ifdef AGAINST
	$(BIN)/python -m tests.bench --against $(AGAINST)
	$(BIN)/python -m tests.bench.serving --against $(AGAINST)
else
	$(BIN)/python -m tests.bench.kept
endif
	$(BIN)/python -W ignore -m tests.golden.net --check $(OPTIMISED) --tolerance 1e-6
	$(BIN)/python -W ignore -m tests.golden.net --check $(OPTIMISED) --tolerance 3e-5 --dtype float32

gpu: $(VENV)/installed  ## figures of JAX's devices, beside targets; on a CPU of a hundredth of the points
	$(BIN)/python -W ignore -m tests.bench.gpu

docs: $(VENV)/documented  ## the site, offline, notebooks executed: build/site/index.html
	$(BIN)/python -m docs.site

$(VENV)/documented: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

docs-figures: $(VENV)/installed  ## output blocks and pictures of the pages, as today's commands make them
	$(BIN)/python -m tests.pages

docs-check: $(VENV)/installed  ## whether all commands of the pages end well, and print what these blocks show
	$(BIN)/python -m tests.pages --check

evidence: $(VENV)/installed  ## score all measured data of the folder DATA, fail where it is worse; WRITE=--write keeps it
	$(BIN)/python -m tests.evidence.matrix --data $(DATA) $(or $(WRITE),--check)

refit: $(VENV)/installed  ## all fits of constants on measured data of the folder DATA, and what moved; WRITE=--write keeps it
	$(BIN)/python -m tests.evidence.refit --data $(DATA) $(WRITE)

clean:
	rm -rf $(VENV) build *.egg-info sweep.nc sweep.png report.html docs/*/index.rst docs/reference/api docs/reference/cli
