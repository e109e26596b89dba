# Two commands do everything on a bare machine: `make run` and `make test`. `make help` lists the rest.
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
ARGS ?=

.PHONY: help setup setup-tests run test test-slow check check-types check-style check-imports check-sizes check-docstrings check-manual client docs bench chaos chaos-short conformance fuzz measure screenshots format dist matrix release packages clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

setup: ## make .venv, install what is pinned, migrate, create the demonstration's users and rules
	@tools/setup.sh

setup-tests: setup
	@tools/setup.sh --tests

run: setup ## set up, then run everything with the live demonstration on http://127.0.0.1:8000/ until Ctrl-C
	@$(PYTHON) -m spark.support.classes --behind $$$$ & exec $(PYTHON) manage.py runrealtime --demo $(ARGS)

test: setup-tests ## set up, then run all tests but the slow ones; ARGS="-k snapshot" narrows, SEED=7 chooses, COVER=1 measures coverage
	@tools/run_tests.sh "not slow" $(ARGS)

test-slow: setup-tests ## the tests that take minutes
	@tools/run_tests.sh "slow" $(ARGS)

check: setup-tests ## style, types, who imports whom, sizes, how docstrings begin, the pages of the manual
	@$(MAKE) --no-print-directory --keep-going --jobs 2 --output-sync=target \
		check-types check-style check-imports check-sizes check-docstrings check-manual

check-types:
	@.venv/bin/mypy

check-style:
	@.venv/bin/ruff check --quiet --output-format concise .
	@.venv/bin/ruff format --check --quiet --output-format concise . || { echo 'make format brings the files above into the one format'; exit 1; }

check-imports:
	@.venv/bin/lint-imports --no-logo

check-sizes:
	@$(PYTHON) tools/check_sizes.py

check-docstrings:
	@$(PYTHON) -m tools.check_docstrings

check-manual:
	@tools/manual.sh

client: setup ## write realtime/static/realtime/client.js and its map anew, of the modules in client/ beside it
	@$(PYTHON) -m tools.client_bundle

docs: setup-tests ## build the manual from docs/ into build/site, to be read from the disk or put on any web server
	@tools/manual.sh
	@echo "file://$$PWD/build/site/index.html"

bench: setup ## measure, and rewrite the tables and charts of docs/explain/benchmarks.md; ARGS="F1 --repeat 1" narrows
	@tools/bench.sh $(ARGS)

measure: setup-tests ## measure what is promised in times and rates, alone on the machine; ARGS="right call --runs 9" chooses
	@$(PYTHON) -m tests.measure $(ARGS)

screenshots: setup-tests ## take the pictures in docs/images anew, of the demonstration as it runs; ARGS="board.png" narrows
	@$(PYTHON) -m tests.screenshots $(ARGS)

chaos: setup-tests ## inject every fault 20 times under load, prove what must hold; FAULT=sidecar-killed N=5 adds to the results
	@$(PYTHON) -m tests.chaos run $(FAULT) $(if $(N),--times $(N)) $(ARGS)

conformance: setup-tests ## MQTT against the standards, with paho-mqtt and Mosquitto's clients; SUITE=FOLDER runs a public suite as well
	@$(PYTHON) -m tests.conformance $(if $(SUITE),--suite $(SUITE)) $(ARGS)

fuzz: setup-tests ## fuzz every parser, SECONDS=60 each, one after the other; ARGS="tokens frames" narrows
	@tools/fuzz.sh $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

chaos-short: setup-tests ## every fault once
	@$(PYTHON) -m tests.chaos run --short $(FAULT) $(ARGS)

format: setup-tests ## bring the code into the one format, sort imports
	@.venv/bin/ruff check --select I --fix --quiet .
	@.venv/bin/ruff format .

dist: setup-tests ## build the wheel and the source distribution into dist/, the same bytes from the same commit
	@tools/dist.sh

matrix: setup-tests ## the wheel on each Python and Django that can be had here, from pip to a live page; ARGS="--write" puts the table into the manual
	@$(PYTHON) tools/matrix.py $(ARGS)

release: setup-tests ## all that a release consists of, into release/: dist, packages, the npm package, what images are built from, manual, SBOM, checksums
	@tools/release.sh

packages: setup-tests ## the sidecar for Linux as deb, rpm and a folder, into dist/; tools/try_package.sh installs and removes them on a bare machine
	@tools/packages.sh

clean: ## remove what setup, runs and tests have made: .venv, var/, caches
	@rm -rf .venv var dist release build .setup.lock .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis test-results \
		realtime/static/realtime/vendor
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
