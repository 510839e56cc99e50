# Every target works on a fresh machine that has make and Python 3.11 or newer: the environments are made on the way.
# make PYTHON=/path/to/python3.12 ...   chooses the interpreter;   make WORKERS=4 test   the number of test processes.

VENV := .venv
PEERS := .venv-peers
PACKAGES := .venv-packages
SITE := .venv-site
# Extras that tests use where they can be installed.
OPTIONAL := mpi,onnx,gguf,test-serve
WORKERS ?= 2
ROUNDS ?= 3

.DEFAULT_GOAL := help
.PHONY: help demo test test-cpu test-emulated test-gpu bench-gpu check lint format bench bench-start fuzz fuzz-files audit sbom soak mutants parity peers packages array-api docs site clean distclean

help:
	@echo "make demo     train the sentence-sentiment example (examples/sentiment.py)"
	@echo "make test     run all tests; those of GPU kernels in emulation, in a process of their own"
	@echo "make test-gpu run the tests of GPU kernels, ops and layers on this machine's GPU;  make bench-gpu  time it"
	@echo "make check    format, lint, types, layers and the fast tests: green before every commit"
	@echo "make format   let ruff format and mend what it can"
	@echo "make bench    time dynograd, beside torch 2.13.0 when it can be installed"
	@echo "make bench-start time first training steps of fresh processes: empty and filled cache; ROUNDS=3"
	@echo "make fuzz     random programs in all ways that must agree, beside torch; MINUTES=10 FIRST=0"
	@echo "make fuzz-files changed files of every format that is read; COUNT=5000 of each, SEED=0"
	@echo "make audit    ask osv.dev for vulnerabilities of the versions in constraints.txt;  make sbom  write build/sbom.json"
	@echo "make mutants  small mistakes in the library, one by one, that tests must notice; COUNT=70 SEED=0"
	@echo "make soak     train 26 models for long, in threads and processes, interrupt them, let memory run out; STEPS=100000"
	@echo "make parity   compare results with torch 2.13.0, in an environment of its own"
	@echo "make packages run PyTorch's packages without PyTorch and write docs/packages.md, in an environment of its own"
	@echo "make array-api run the public test suite of the array API standard, which is cloned with git"
	@echo "make docs     write docs/support.md from the table of ops"
	@echo "make site     build the documentation site into build/site, in an environment of its own"
	@echo "make clean    remove caches and builds;  make distclean  the environments too"

demo:
	@sh tools/setup.sh $(VENV) --extras viz
	$(VENV)/bin/python examples/sentiment.py

test: test-cpu test-emulated

test-cpu:
	@sh tools/setup.sh $(VENV) --extras dev,viz --optional $(OPTIONAL)
	$(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal

test-emulated:
	@sh tools/setup.sh $(VENV) --extras dev,viz --optional $(OPTIONAL)
	DYNOGRAD_CUDA=emulated:3 $(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal tests/gpu

test-gpu:
	@sh tools/setup.sh $(VENV) --extras dev,viz --optional $(OPTIONAL)
	$(VENV)/bin/python -m tools.need_gpu
	$(VENV)/bin/python -m pytest tests/gpu

bench-gpu:
	@sh tools/setup.sh $(PEERS) --extras dev --optional peers
	$(PEERS)/bin/python -m tools.need_gpu
	$(PEERS)/bin/python -m benchmarks --device cuda

check: lint
	$(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow"

lint:
	@sh tools/setup.sh $(VENV) --extras dev,viz --optional $(OPTIONAL)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

format:
	@sh tools/setup.sh $(VENV) --extras dev,viz --optional $(OPTIONAL)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench:
	@sh tools/setup.sh $(PEERS) --extras dev --optional peers
	$(PEERS)/bin/python -m benchmarks

bench-start:
	@sh tools/setup.sh $(PEERS) --extras dev --optional peers
	$(PEERS)/bin/python -m benchmarks cold warm --rounds $(ROUNDS)

peers:
	@sh tools/setup.sh $(PEERS) --extras dev,peers

fuzz:
	@sh tools/setup.sh $(PEERS) --extras dev --optional peers
	$(PEERS)/bin/python -m tests.fuzz $(or $(MINUTES),10) $(or $(FIRST),0)

fuzz-files:
	@sh tools/setup.sh $(VENV) --extras dev,viz --optional $(OPTIONAL)
	nice -n 15 $(VENV)/bin/python -m tests.fuzz.files --count $(or $(COUNT),5000) --seed $(or $(SEED),0)

audit:
	@sh tools/setup.sh $(VENV) --extras dev,viz --optional $(OPTIONAL)
	$(VENV)/bin/python -m tools.audit

sbom:
	@sh tools/setup.sh $(VENV) --extras dev,viz --optional $(OPTIONAL)
	@mkdir -p build
	$(VENV)/bin/python -m tools.sbom --output build/sbom.json

mutants:
	@sh tools/setup.sh $(VENV) --extras dev,viz --optional $(OPTIONAL)
	nice -n 19 $(VENV)/bin/python -m tests.mutation $(or $(COUNT),70) $(or $(SEED),0)

soak:
	@sh tools/setup.sh $(VENV) --extras dev
	$(VENV)/bin/python -m tests.soak --steps $(or $(STEPS),100000)
	$(VENV)/bin/python -m tests.soak together
	$(VENV)/bin/python -m tests.soak interrupts
	$(VENV)/bin/python -m tests.soak memory

parity: peers
	$(PEERS)/bin/python -m pytest -n $(WORKERS) --dist worksteal tests/parity

packages:
	@sh tools/setup.sh $(PACKAGES)
	$(PACKAGES)/bin/python -m dynograd make-torch-shim $(PACKAGES)/stand-in --install
	$(PACKAGES)/bin/python -m pip install --quiet --requirement packages/requirements.txt
	$(PACKAGES)/bin/python -m packages run --jobs $(WORKERS)
	$(PACKAGES)/bin/python -m packages table

array-api:
	@sh tools/setup.sh $(VENV) --extras dev,viz,array-api
	$(VENV)/bin/python -m tools.run_array_api_suite

docs:
	@sh tools/setup.sh $(VENV) --extras dev,viz --optional $(OPTIONAL)
	$(VENV)/bin/python -m tools.make_support
	$(VENV)/bin/python -m tools.make_stubs
	$(VENV)/bin/python -m tools.make_ragged

site:
	@sh tools/setup.sh $(SITE) --extras docs
	$(SITE)/bin/python -m tools.site.build

clean:
	rm -rf build dist .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find dynograd tests tools examples benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean
	rm -rf $(VENV) $(VENV).lock $(PEERS) $(PEERS).lock $(SITE) $(SITE).lock .array-api-tests
