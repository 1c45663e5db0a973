# make demo   sets up .venv and runs the main job over the examples
# make test   all tests that need only the project's own dependencies
# make check  the gate: format, lint, types, layers, tests
# make parity the engine beside torch.fx over real model libraries · make e2e  a real VS Code · make bench  ratios

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
# In the gate nothing may be skipped for want of a tool.
PYTEST := $(BIN)/python -m pytest $(if $(CI),-p tests.support.no_skips)

.PHONY: compiled demo test check format lint types layers parity corpus extension e2e soak bench clean

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e '.[dev]'
	touch $@

# What pip does for a package that is not edited; it is told to whatever PYTHONDONTWRITEBYTECODE says.
compiled: $(VENV)/.installed
	@$(BIN)/python -m compileall -q fxls engine

# `check` ends with 1 where it found problems, which is what some of the examples are for.
demo: compiled
	@printf '\n$$ fxls check examples/\n'
	@$(BIN)/fxls check examples/ || test $$? -eq 1
	@printf '\n$$ fxls code examples/vit.py\n'
	@$(BIN)/fxls code examples/vit.py
	@printf '\n$$ fxls profile examples/resnet.py --device cpu\n'
	@$(BIN)/fxls profile examples/resnet.py --device cpu

test: compiled
	$(PYTEST) -m "not corpus and not vscode" $(ARGS)

check: $(VENV)/.installed format lint types layers test

format: $(VENV)/.installed
	$(BIN)/ruff format --check

lint: $(VENV)/.installed
	$(BIN)/ruff check

types: $(VENV)/.installed
	$(BIN)/basedpyright

layers: $(VENV)/.installed
	$(BIN)/lint-imports

# The model libraries of the parity tests, beside the environment and never in it.
corpus: $(VENV)/.installed
	@$(BIN)/python tests/support/corpus.py

parity: corpus compiled
	$(PYTEST) -m corpus tests $(ARGS)

# Ten thousand random edits and requests, while workers are killed.
soak: compiled
	$(BIN)/python -m tests.soak $(ARGS)

bench: corpus compiled
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/case_studies.py
	$(BIN)/python benchmarks/latency.py

# The VS Code extension with the server inside it: vscode-extension/fxls.vsix.
extension: $(VENV)/.installed vscode-extension/node_modules/.package-lock.json
	$(BIN)/python vscode-extension/scripts/settings.py --check
	$(BIN)/python vscode-extension/scripts/vendor.py
	cd vscode-extension && npm run --silent check && npm run --silent bundle && npm run --silent package

vscode-extension/node_modules/.package-lock.json: vscode-extension/package-lock.json
	cd vscode-extension && npm ci --ignore-scripts --no-audit --no-fund
	touch $@

# The packaged extension in a real VS Code, which is installed under .cache.
e2e: extension
	tests/e2e/setup_host.sh
	$(PYTEST) -m vscode tests/e2e $(ARGS)

clean:
	rm -rf $(VENV) .corpus .cache
