# make demo | test | lint. Everything is installed into .venv from the package registry, in the versions of constraints.txt.
VENV ?= .venv
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
BIN := $(VENV)/bin
SAMPLE := assets/samples/collage.jpg
QUESTION := What letter is on the green diamond?

.PHONY: demo install test explore lint format samples clean

install: $(VENV)/installed-demo

# Ask about the sample picture, show where nano looked and what that cost, and draw it.
demo: $(VENV)/installed-demo
	$(BIN)/fovea ask $(SAMPLE) "$(QUESTION)" --output runs/demo
	@echo
	@echo "Open runs/demo/overlay.png to see where it looked. The same in a web page: $(BIN)/fovea demo"

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest

# The properties on new random examples, more of them; what fails here belongs into the test as an @example.
explore: $(VENV)/installed-dev
	FOVEA_HYPOTHESIS=explore $(BIN)/python -m pytest -m "hypothesis and not slow"

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The sample picture and the sample document, generated from the held-out splits.
samples: $(VENV)/installed-dev
	$(BIN)/fovea data sample --output assets/samples
	$(BIN)/fovea data sample-document --output assets/samples

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache fovea.egg-info

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Fovea needs Python 3.11 or newer; install it, or: make demo PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { echo "no venv module; on Debian: apt-get install python3-venv"; rm -rf $(VENV); exit 1; }

$(VENV)/installed-%: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$*]'
	@touch $@
