PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS = 1
# Many tests start programs of their own, which would compile the package each time.
export PYTHONDONTWRITEBYTECODE =

# One more than there are cores: half of what a test takes is waiting for the program that it runs.
JOBS := $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 1) + 1)")

.PHONY: demo test check clean

demo: $(VENV)/.run
	@$(BIN)/whence demo || true

test: check
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

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
