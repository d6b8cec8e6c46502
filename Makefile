# Short names for what meson, tests/run and the tools do. `make help` lists them.
PREFIX ?= /usr/local
BUILD ?= build
FUZZ_SECONDS ?= 60
MAKEFLAGS += --no-print-directory
export BUILD
SETUP = meson setup --libdir=lib $(MESON_ARGS)
deps = @tools/dev/deps
sources = $(shell tools/dev/sources c)

all: $(BUILD)/build.ninja ## build liburxe.so into build/
	@ninja -C $(BUILD)

install: $(BUILD)/build.ninja ## install to PREFIX (default /usr/local): bin, lib, man
	@meson configure $(BUILD) --prefix=$(abspath $(PREFIX))
	@ninja -C $(BUILD)
	@meson install -C $(BUILD) --no-rebuild

check: ## install what is needed, build, run every test
	$(deps) build check
	@$(MAKE) all
	@tests/run meson=$(BUILD) lint e2e

demo: ## messages by RDMA on a machine without it, beside TCP, in under a minute
	$(deps) build demo
	@$(MAKE) all
	@tools/demo

bench: ## measure beside TCP, UCX, libfabric, ZeroMQ and nng; tables, and build/bench.json
	$(deps) build bench
	@$(MAKE) all
	@test -e $(BUILD)/bench/bench_nng || ninja -C $(BUILD) reconfigure all # now that it is there
	@bench/run.py

interop: ## urxe and the Linux kernel's rxe, in an emulated guest, as peers; a few minutes
	$(deps) build interop
	@$(MAKE) all
	@tests/run interop

check-rxe: ## the programs that run on any verbs device, on the kernel's rxe in the guest
	$(deps) build interop
	@$(MAKE) all
	@tests/run rxe

lint: ## include rule, purity, lengths, format, spelling, shell scripts, headers
	$(deps) build check
	@$(MAKE) all
	@tests/run lint

fmt: ## format the C sources in place
	@tools/dev/clang-format -i $(sources)

asan: build-asan/build.ninja ## tests under AddressSanitizer and UBSan
	@tests/run meson=build-asan

tsan: build-tsan/build.ninja ## threaded tests under ThreadSanitizer
	@tests/run meson=build-tsan,link,verbs,sim,channels

fuzz: build-asan/build.ninja ## FUZZ_SECONDS (60) of each fuzzer from its corpus
	@tests/run fuzz=build-asan,$(FUZZ_SECONDS)

coverage: build-coverage/build.ninja ## coverage of wire, engine and the pure part of xrdma, against floors
	@tests/run meson=build-coverage,-channels,-conformance coverage=build-coverage

clean: ## remove every build directory
	rm -rf build build-*

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

$(BUILD)/build.ninja:
	@command -v meson ninja >/dev/null || tools/dev/deps build
	@$(SETUP) $(BUILD) --prefix=$(abspath $(PREFIX)) >/dev/null

build-asan/build.ninja:
	$(deps) build ci
	@CC=clang $(SETUP) build-asan -Db_sanitize=address,undefined -Db_lundef=false >/dev/null

build-tsan/build.ninja:
	$(deps) build ci
	@CC=clang $(SETUP) build-tsan -Db_sanitize=thread -Db_lundef=false >/dev/null

build-coverage/build.ninja:
	$(deps) build ci
	@$(SETUP) build-coverage -Db_coverage=true --buildtype=debug -Doptimization=0 >/dev/null

.PHONY: all install check demo bench interop check-rxe lint fmt asan tsan fuzz coverage clean help
