# One command per chore. `make serve` and `make test` start from nothing but Python >= 3.11 and a C++ compiler.

VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core-installed
DEV := $(VENV)/.dev-installed
ORACLE := .venv-oracle/.installed
ARGS =
SUDO = $(if $(filter 0,$(shell id -u)),,sudo)
# They kill processes, or wait for servers: beside tests that compile and compute, a busy machine could make them fail.
# They wait as much as they compute, so two files at a time take less long.
SERVERS := tests/engine tests/server

# A venv holds absolute paths: once the checkout has moved, or its Python is gone, it is made anew.
ifneq ($(shell cat $(CORE) 2>/dev/null)-$(wildcard $(BIN)/python),$(CURDIR)-$(BIN)/python)
STALE := stale
endif

.DEFAULT_GOAL := help
.PHONY: .style .types help serve test test-arm check format bench bench-kernels bench-engine compare bench-quality bench-scaling soak oracle tiny-deepseek metrics-page proto dashboards flamegraph lower-bounds clean stale
.SUFFIXES:

help:
	@echo 'make serve          serve the default model on 127.0.0.1:8000   (make serve ARGS="MODEL --port 8123")'
	@echo 'make test           run every test                              (make test ARGS="tests/unit -k queue")'
	@echo 'make test-arm       run the kernels for Arm under an emulator, which it installs (Debian, Ubuntu)'
	@echo
	@echo 'make check          formatting, lint, types, import contracts, C++ formatting'
	@echo 'make format         put Python and C++ into the form that `make check` wants'
	@echo 'make bench          measure the server on this machine          (make bench ARGS=--help)'
	@echo 'make bench-kernels  measure each op of the CPU back end, count its instructions, compare with the baseline'
	@echo 'make bench-engine   time outside of native code, idle memory and CPU, steps of a busy server'
	@echo 'make bench-quality  what weight and KV formats cost: perplexity and best tokens against float32'
	@echo 'make bench-scaling  how costs grow with waiting and running requests, context and model size'
	@echo 'make soak           kill, stop and pester a server for ten minutes, and check every answer   (make soak ARGS=--help)'
	@echo 'make compare        measure other engines beside it, built first   (make compare ARGS=--help)'
	@echo 'make oracle         make the expected values of the tests again with torch and transformers'
	@echo 'make tiny-deepseek  train the DeepSeek that comes with the package again (ten minutes; Debian, Ubuntu)'
	@echo 'make metrics-page   make docs/metrics.md again, from the table of metrics'
	@echo 'make proto          make the code of the gRPC protocol from its file again'
	@echo 'make flamegraph     draw what a busy server does, in build/flamegraph.svg   (make flamegraph ARGS=--help)'
	@echo 'make dashboards     write the dashboards for Grafana again from deploy/grafana/'
	@echo 'make lower-bounds   run the unit tests against the oldest dependencies that pyproject.toml allows'
	@echo 'make fuzz           feed damaged inputs to all that takes bytes from outside   (make fuzz ARGS="--inputs 1000000")'
	@echo 'make sanitize       run kernels and rings under the sanitizers of addresses and undefined behaviour'
	@echo 'make clean          remove all that was built, .venv included'

$(CORE): pyproject.toml scripts/setup.sh $(wildcard CMakeLists.txt) $(shell find csrc -type f) $(STALE)
	@scripts/setup.sh core

$(DEV): $(CORE)
	@scripts/setup.sh dev

serve: $(CORE)
	@exec $(BIN)/tailrace serve $(ARGS)

# Without ARGS in two parts, each in two processes. Both run, and either can make it fail.
test: $(DEV)
	@$(BIN)/python -m tailrace.weights.default_model
	@command -v chromium >/dev/null || \
	    { $(SUDO) apt-get update --quiet && $(SUDO) apt-get install --yes --quiet chromium; }
ifneq ($(ARGS),)
	@$(BIN)/python -m pytest $(ARGS)
else
	@failed=0; \
	    $(BIN)/python -m pytest -n 2 --dist loadfile $(SERVERS:%=--ignore=%) || failed=1; \
	    $(BIN)/python -m pytest -n 2 --dist loadfile $(SERVERS) || failed=1; \
	    exit $$failed
endif

# Once as a processor with dot products, once as one without.
test-arm: $(CORE)
	@command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64 >/dev/null || \
	    $(SUDO) apt-get install --yes g++-aarch64-linux-gnu qemu-user
	$(BIN)/cmake -S tests/kernels -B build/kernels-arm -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja \
	    -DCMAKE_TOOLCHAIN_FILE=aarch64.cmake
	$(BIN)/cmake --build build/kernels-arm
	qemu-aarch64 -cpu max build/kernels-arm/compare
	qemu-aarch64 -cpu cortex-a53 build/kernels-arm/compare

# Side by side, since types alone take longer than all the others.
check: $(DEV)
	@$(MAKE) --no-print-directory --keep-going --jobs 2 .types .style

.types:
	$(BIN)/mypy

.style:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	find csrc tests -name '*.cpp' -o -name '*.h' | xargs $(BIN)/clang-format --dry-run -Werror

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	find csrc tests -name '*.cpp' -o -name '*.h' | xargs $(BIN)/clang-format -i

bench: $(DEV)
	@$(BIN)/python -m benchmarks.serving $(ARGS)

bench-kernels: $(DEV)
	@$(BIN)/python -m benchmarks.kernels $(ARGS)

bench-engine: $(DEV)
	@$(BIN)/python -m benchmarks.engine $(ARGS)

bench-quality: $(DEV)
	@$(BIN)/python -m benchmarks.quality $(ARGS)

bench-scaling: $(DEV)
	@$(BIN)/python -m benchmarks.scaling $(ARGS)

soak: $(DEV)
	@$(BIN)/python -m tailrace.weights.default_model
	@$(BIN)/python -m benchmarks.chaos $(ARGS)

compare: $(DEV)
	@$(BIN)/python -m tailrace.weights.default_model
	@$(BIN)/python -m benchmarks.peers $(ARGS)

$(ORACLE): scripts/oracle/requirements.txt | $(CORE)
	$(BIN)/python -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --requirement $<
	@touch $@

oracle: $(CORE) $(ORACLE)
	model=$$($(BIN)/python -c 'from tailrace.weights import default_model as m; print(m.default_model_path())') && \
	    $(dir $(ORACLE))bin/python scripts/oracle/generate.py --model "$$model"

# On a busy machine one thread is hardly slower: make tiny-deepseek ARGS="--threads 1".
tiny-deepseek: $(ORACLE)
	nice $(dir $(ORACLE))bin/python scripts/tiny_deepseek/train.py $(ARGS)
	nice $(dir $(ORACLE))bin/python scripts/tiny_deepseek/expected.py

# The page is checked by tests/architecture/test_documents.py.
metrics-page: $(DEV)
	$(BIN)/python -m scripts.metrics_page >docs/metrics.md

# With the compiler of the oldest protobuf that pyproject.toml allows: its code runs with newer ones.
proto: $(CORE)
	$(BIN)/python -m venv --clear .venv-proto
	.venv-proto/bin/python -m pip install --quiet 'grpcio-tools==1.81.1'
	.venv-proto/bin/python -m grpc_tools.protoc -I src --python_out=src --pyi_out=src \
	    src/tailrace/frontends/grpc/v1/inference.proto

flamegraph: $(DEV)
	@$(BIN)/python -m benchmarks.flamegraph $(ARGS)

dashboards: $(DEV)
	@$(BIN)/python -m deploy.grafana

# With a .venv of the oldest Python: for newer ones, the oldest dependencies have no wheels and take long to build.
lower-bounds: $(DEV)
	$(BIN)/python -m venv --clear .venv-lower-bounds
	$(BIN)/python scripts/lower_bounds.py >.venv-lower-bounds/constraints.txt
	.venv-lower-bounds/bin/python -m pip install --quiet 'pip>=25.1'
	.venv-lower-bounds/bin/python -m pip install --quiet --constraint .venv-lower-bounds/constraints.txt \
	    --config-settings build-dir=.venv-lower-bounds/build --group dev --editable .
	.venv-lower-bounds/bin/python -m pytest $(or $(ARGS),tests/unit)

fuzz: $(DEV)
	@$(BIN)/python -m tests.fuzz $(ARGS)

sanitize: $(DEV)
	@scripts/sanitize.sh $(ARGS)

clean:
	rm -rf .venv .venv-* .peers build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks scripts -name __pycache__ -type d -prune -exec rm -rf {} +
