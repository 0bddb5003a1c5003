export PATH := $(CURDIR)/.venv/bin:$(PATH)
CPP_FILES = $(shell find runtime_ops python tests -name '*.cpp' -o -name '*.h')
HAS_ARM64 = command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64-static >/dev/null
HAS_GTEST = echo '\#include <gtest/gtest.h>' | g++ -E -x c++ - >/dev/null 2>&1

.NOTPARALLEL:
.PHONY: help setup build runner-arm64 demo demo-phone test test-full test-cpp test-python fuzz bench bench-readme lint format clean

help:  ## show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 15

setup:  ## create .venv with the pinned packages (once; then instant and offline)
	@tools/setup.sh

build: setup  ## compile what changed and install the package into .venv, editable
	@python -m pip --disable-pip-version-check install --quiet --no-build-isolation --no-deps -e .

runner-arm64: build  ## compile the runner for arm64 Linux, for `--device qemu` and virtual phones
	@tools/make_runner_arm64.sh

demo: build  ## export a small CNN, train it, and compare with PyTorch
	@daf demo --out build/demo
	@echo "next: source .venv/bin/activate, then your own model: README.md"

demo-phone: runner-arm64  ## train on a virtual phone what does not fit without compressed activations: minutes
	@daf phone demo --out build/demo-phone

test: lint test-cpp test-python  ## everything that must pass: lint, C++ tests (plain, sanitized, arm64), Python tests

test-cpp: setup
	@$(call cpp-tests,dev asan tsan)
	@if $(HAS_ARM64); then $(call cpp-tests,arm64); else \
	  echo "SKIP arm64 tests: no cross compiler or emulator (Debian: apt-get install g++-aarch64-linux-gnu qemu-user-static)"; fi

# Builds and runs the C++ tests of the presets given.
define cpp-tests
mkdir -p build; if $(HAS_GTEST); then \
  for preset in $(1); do \
    cmake --preset $$preset >build/$$preset.log || { cat build/$$preset.log; exit 1; }; \
    cmake --build --preset $$preset --target daf_tests && ctest --preset $$preset || exit 1; \
  done; \
else echo "SKIP C++ tests: GoogleTest is not installed (Debian: apt-get install libgtest-dev)"; fi
endef

test-python: build
	@if $(HAS_ARM64); then tools/make_runner_arm64.sh; fi
	@pytest -n 2

test-full: build  ## full-size models and Android's own ABI: minutes, and several GB of memory
	@tools/setup.sh full
	@pytest -m full -s

fuzz: build  ## fuzz the parsers, FUZZ_SECONDS each (10): needs clang; that of traces, atheris
	@if echo 'int main() {}' | clang++-19 -fsanitize=address -x c++ -o /dev/null - 2>/dev/null; then \
	  cmake --preset fuzz >build/fuzz.log || { cat build/fuzz.log; exit 1; }; cmake --build --preset fuzz || exit 1; \
	  for fuzzer in build/fuzz/tests/fuzz/fuzz_*; do [ -x $$fuzzer ] && [ -f $$fuzzer ] || continue; \
	    name=$${fuzzer##*fuzz_}; mkdir -p build/fuzz/corpus/$$name; \
	    $$fuzzer -max_total_time=$${FUZZ_SECONDS:-10} -print_final_stats=1 -verbosity=0 -artifact_prefix=build/fuzz/$$name- \
	      build/fuzz/corpus/$$name tests/fuzz/corpus/$$name || exit 1; \
	  done; \
	else echo "SKIP fuzzers: clang, or its sanitizers, are not installed (Debian: apt-get install clang-19 libclang-rt-19-dev)"; fi
	@if python -c 'import atheris' 2>/dev/null || python -m pip install --quiet atheris==3.0.0; then \
	  mkdir -p build/fuzz/corpus/trace; \
	  python tests/fuzz/fuzz_trace.py -max_total_time=$${FUZZ_SECONDS:-10} -print_final_stats=1 -verbosity=0 \
	    -artifact_prefix=build/fuzz/trace- build/fuzz/corpus/trace tests/fuzz/corpus/trace; \
	else echo "SKIP the fuzzer of traces: atheris cannot be installed here"; fi

bench-readme: build  ## measure again what the README's table says: two minutes
	@daf bench --quick --json docs/bench_quick.json
	@python -m daf.tools.bench_headlines docs/bench_quick.json README.md

bench: build  ## time kernels and training steps against PyTorch: some 20 minutes
	@daf bench kernels --json build/bench_kernels.json
	@daf bench step --json build/bench_step.json

lint: setup  ## ruff, mypy, clang-format
	@ruff check .
	@ruff format --check --quiet . || { echo "run 'make format'"; exit 1; }
	@rm -rf build/package && mkdir -p build/package/daf
	@ln -s $(addprefix ../../../,$(wildcard python/daf/*) exporter tools) build/package/daf
	@mypy
	@clang-format --dry-run -Werror $(CPP_FILES)

format: setup  ## rewrite sources in the project's style
	@ruff check --fix-only --quiet . && ruff format --quiet .
	@clang-format -i $(CPP_FILES)

clean:  ## remove build products (.venv stays)
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
