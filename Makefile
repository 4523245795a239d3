PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS = 1
# Many tests start programs of their own, which would compile the package each time.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test test-rule check compat soak clean

demo: $(VENV)/.run
	@$(BIN)/whence demo || true

test: check
	$(BIN)/python -m pytest -n auto --dist worksteal

# What concerns one rule, in seconds: make test-rule RULE=loss/broadcast
test-rule: $(VENV)/.develop
	$(BIN)/python -m pytest -n auto tests/test_cases.py tests/test_rules.py -k "$(RULE)"

# Every torch and Python that users have; takes an hour, and several GB below .venv-compat.
compat:
	$(PYTHON) bench/compat.py

# 500 random healthy programs, plain and watched: about an hour on two cores.
soak: $(VENV)/.develop
	$(BIN)/python bench/soak/compare.py --programs 500 --seed 1 --jobs 2

check: $(VENV)/.develop
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench
	$(BIN)/mypy

$(VENV)/.run: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

$(VENV)/.develop: $(VENV)/.run
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
