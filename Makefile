# `make help` lists the targets. They use the environment that is active: make one with
#     python3 -m venv .venv && . .venv/bin/activate

PYTHON ?= python3

.DEFAULT_GOAL := help
.PHONY: help build-dev build test test-rust test-python lint format typecheck stubs notebooks verify sample \
	reproduce calibrate bench bench-ir ci clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build-dev: ## install in place with every assertion on, and the tools of tests and lints
	$(PYTHON) -m pip install --quiet 'maturin>=1.9.4,<2'
	$(PYTHON) -m maturin develop --profile dev-fast --extras test,lint

build: ## build and install the package as its users do
	$(PYTHON) -m pip install '.[test,lint]'

test: test-rust test-python ## run every test

test-rust: ## run the core's tests, vectors included
	cargo test --locked --workspace

test-python: ## run the Python tests and the notebooks against the installed package
	$(PYTHON) -m pytest

lint: ## check formatting and lints of Rust and Python
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

format: ## format Rust and Python
	cargo fmt --all
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

typecheck: ## check the types of the Python package
	$(PYTHON) -m mypy

stubs: ## check the stub of the extension against the installed one
	$(PYTHON) -m mypy.stubtest schedlab._core

notebooks: ## execute the notebooks and store their outputs
	SCHEDLAB_QUICK= $(PYTHON) -m pytest --nbmake --overwrite notebooks

verify: ## replay every vector of the real kernels
	schedlab verify --vectors tests/vectors

sample: ## make the sample of vectors that ships with the package
	$(PYTHON) tests/sample_vectors.py

reproduce: ## print the published tables beside the simulated ones
	schedlab reproduce

calibrate: ## fit the costs of the machines of the tables again, into python/schedlab/data
	schedlab calibrate arm64-dual-quad

bench: ## measure the speed of the engine's parts and of whole runs
	cargo bench --locked -p schedlab-core
	$(PYTHON) benchmarks/hackbench.py

bench-ir: ## count the instructions of a small run, a figure without noise (needs valgrind)
	cargo build --locked --release -p schedlab-core --example run_scenario
	valgrind --tool=callgrind --callgrind-out-file=target/callgrind.out \
		target/release/examples/run_scenario benchmarks/small.json 1 2>&1 | grep -E '^(messages|events)|refs'

ci: ## what the continuous integration runs
	.ci/run

clean: ## remove what builds and tests left
	cargo clean
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis python/schedlab/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
