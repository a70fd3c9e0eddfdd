# The front door. Everything happens in $(BUILD); CMake does the work.
#   make            the command at build/l3a, the library at build/libl3a.so and build/libl3a.a
#   make cuda       the plug-in for NVIDIA devices at build/libl3a-cuda.so; plain make builds it where nvcc is installed
#   make demo       draw pictures, learn them in phases, tag some: build/demo
#   make test       all tests, and what was skipped and why (CC=clang, SANITIZE=address,undefined and BUILD=folder for the other jobs of CI;
#                   TESTS and EXCEPT choose tests, TARGETS what they need; some tests wait, so one more runs than there are processors;
#                   CMAKE_OPTIONS are for CMake; tests/again build repeats what failed)
#   make fuzz       libFuzzer targets; make fuzz-long runs all of them for half an hour (FUZZ_SECONDS=60 for less)
#   make bench      measurements against bare BLAS and PyTorch
#   make tarball    the source as build/l3a-VERSION.tar.gz, the same bytes wherever it is made
#   make deb        Debian packages in build/: l3a, libl3a0, libl3a-dev, python3-l3a, l3a-figures, l3a-backend-mpi, and l3a-backend-cuda where nvcc is installed
#   make static     the command at build-static/l3a, one file that runs on any Linux; `l3a doctor` says what it lacks
#   make wheel      the Python package with the library inside: build/l3a-VERSION-py3-none-linux_x86_64.whl
#   make install PREFIX=/usr/local, make uninstall
BUILD ?= build
PREFIX ?= /usr/local
SANITIZE ?=
WERROR ?= OFF
CUDA ?= AUTO
JOBS ?= $(shell nproc)
TESTS ?= .
EXCEPT ?= ^$
TARGETS ?= all
CMAKE_OPTIONS ?=
MAKEFLAGS += --no-print-directory

configure = cmake -S . -B $(BUILD) -DCMAKE_C_COMPILER=$(CC) -DCMAKE_INSTALL_PREFIX=$(PREFIX) -DL3A_SANITIZE=$(SANITIZE) \
            -DL3A_WERROR=$(WERROR) -DL3A_CUDA=$(CUDA) $(CMAKE_OPTIONS) > $(BUILD).log || { cat $(BUILD).log; exit 1; }

.PHONY: all cuda demo test bench fuzz fuzz-long tarball deb static install uninstall format clean wheel
all:
	@tools/install-packages build
	@$(configure)
	@cmake --build $(BUILD) -j $(JOBS)

cuda:
	@tools/install-packages build
	@$(configure)
	@cmake -S . -B $(BUILD) -DL3A_CUDA=ON > $(BUILD).log || { cat $(BUILD).log; exit 1; }
	@cmake --build $(BUILD) -j $(JOBS) --target l3a_cuda

demo: all
	@rm -rf $(BUILD)/demo
	@$(BUILD)/l3a demo -o $(BUILD)/demo

test:
	@tools/install-packages build test python
	@$(configure)
	@cmake -S . -B $(BUILD) -DL3A_TESTS=ON > $(BUILD).log
	@cmake --build $(BUILD) -j $(JOBS) --target $(TARGETS)
	@code=0; (cd $(BUILD) && ctest -j $$(($(JOBS) + 1)) -R '$(value TESTS)' -E '$(value EXCEPT)' --output-on-failure) || code=$$?; tests/skipped $(BUILD); exit $$code

bench:
	@tools/install-packages build test bench
	@$(configure)
	@cmake -S . -B $(BUILD) -DL3A_BENCH=ON > $(BUILD).log
	@cmake --build $(BUILD) -j $(JOBS)
	@L3A_BUILD=$(BUILD) /usr/bin/python3 bench/run.py

fuzz:
	@tools/install-packages build fuzz
	@cmake -S . -B $(BUILD)-fuzz -DCMAKE_C_COMPILER=clang -DL3A_FUZZ=ON > $(BUILD)-fuzz.log
	@cmake --build $(BUILD)-fuzz -j $(JOBS)
	@echo "fuzz targets are in $(BUILD)-fuzz/fuzz; run one as: $(BUILD)-fuzz/fuzz/fuzz_json fuzz/corpus/json"

fuzz-long: fuzz
	@tools/fuzz-long $(BUILD)-fuzz

tarball:
	@packaging/tarball $(BUILD)

deb:
	@tools/install-packages build package
	@packaging/deb $(BUILD) $(CUDA)

static:
	@tools/install-packages build
	@cmake -S . -B $(BUILD)-static -DCMAKE_C_COMPILER=$(CC) -DL3A_WERROR=$(WERROR) -DL3A_STATIC=ON > $(BUILD)-static.log || { cat $(BUILD)-static.log; exit 1; }
	@cmake --build $(BUILD)-static -j $(JOBS)

wheel:
	@tools/install-packages build python
	@mkdir -p $(BUILD)
	@rm -rf $(BUILD)/wheel-package
	@L3A_BUNDLE=1 L3A_CMAKE_BUILD=$(abspath $(BUILD))/wheel /usr/bin/python3 setup.py --quiet egg_info --egg-base $(BUILD) build --build-base $(BUILD)/wheel-package \
	    bdist_wheel --bdist-dir $(BUILD)/wheel-package/wheel --dist-dir $(BUILD)
	@rm -rf $(BUILD)/wheel-package
	@for wheel in $(BUILD)/l3a-*.whl; do \
	    test $$(stat -c %s $$wheel) -lt 30000000 || { echo "$$wheel has more than 30 MB"; exit 1; }; ls -l $$wheel; done

install: all
	@cmake --install $(BUILD) --prefix $(PREFIX)

uninstall:
	@test -f $(BUILD)/install_manifest.txt || { echo "nothing was installed from $(BUILD)"; exit 1; }
	@xargs -d '\n' rm -fv < $(BUILD)/install_manifest.txt

format:
	@clang-format -i include/l3a/*.h src/*/*.[ch] src/*/*/*.[ch] tests/unit/*.[ch] fuzz/*.c bench/*.c examples/*.c tools/*.c

clean:
	@rm -rf build build-* build*.log
