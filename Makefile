# What a developer and a new user type. Everything here works in a fresh clone, as root or as an
# ordinary user, without a terminal.
#
# make run      install what is missing, build, run the default study, show the results
# make test     formatting, lints, all tests, licences
# make bench    ratios against iperf3, usrsctp and minimal programs on the same libraries
# make fuzz     damaged input for ten minutes a target, as .ci/nightly does
# make doctor   what this machine can do
# make lab-kernel the guest kernel for virtual time
# make cross-check both emulators against each other and theory, into docs/emulators.md
# make validity what the statistics of a report are worth, into docs/validity.md
# make external the drivers that are programs of their own, in Python and in Go

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Steps share one build directory and one machine that is being measured.
.NOTPARALLEL:

CACHE := $(HOME)/.cache/regatta
# One build directory for every clone of this user, so that a fresh one builds in seconds.
export CARGO_TARGET_DIR ?= $(CACHE)/target
export PATH := $(HOME)/.cargo/bin:$(PATH)

# How the C parts that encrypt are compiled. Another path would compile them again, so it is the same for
# every clone.
CRYPTO_CMAKE := $(CACHE)/crypto-$(firstword $(shell sha256sum scripts/crypto.cmake | cut -c1-12)).cmake
export CMAKE_TOOLCHAIN_FILE := $(CRYPTO_CMAKE)
export AWS_LC_SYS_CMAKE_BUILDER := 1

TOOLS := $(CACHE)/tools
CARGO_DENY := $(TOOLS)/cargo-deny-0.20.2/bin/cargo-deny
CARGO_NEXTEST := $(TOOLS)/cargo-nextest-0.9.151/bin/cargo-nextest

# The tests' profile: see Cargo.toml. Clippy compiles the tests, so that lints cost no pass of their own
# through every crate.
NEXTEST = env RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ \
  "$(CARGO_NEXTEST)" nextest run --locked --workspace --cargo-profile bench

.PHONY: help run test bench fuzz doctor lab-kernel cross-check validity external external-lock env build fmt lint deny readme tests nightly tools-build tools-test tools-bench tools-kernel

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# How far `make run` is; its prerequisites see this, too.
step = ==
run: step = == step $(1) of 3:

run: build ## Build in release, run the default study, show the results
	@echo "$(call step,3) the default study, two minutes (./regatta run)"
	./regatta run
	@echo "The binary is ./regatta: try './regatta --help'."

doctor: build ## Show what this machine can do, and what to type where it cannot
	./regatta doctor

test: fmt deny tests readme ## Formatting, lints, licences, the README's commands, all tests

bench: tools-build tools-bench ## Ratios against iperf3, usrsctp and minimal programs
	cargo run --release --locked --package regatta-bench -- $(BENCH_ARGS)

fuzz: $(CARGO_NEXTEST) tools-build ## Damaged input for every fuzz target, ten minutes each, from another seed each day
	@scripts/fuzz $(NEXTEST) --profile nightly --test-threads num-cpus -E 'binary(fuzz)' $(NEXTEST_ARGS)

external: ## Make the external drivers: quic-aioquic, sctp-pysctp, quic-go
	@scripts/external

lab-kernel: ## Build the guest kernel for virtual time, unless the cache has it
	@[ -x "$$(lab/build-kernel --path)" ] || $(MAKE) --no-print-directory tools-kernel
	@lab/build-kernel

cross-check: lab-kernel ## Both emulators against each other and theory, into docs/emulators.md
	cargo build --locked --profile bench --package regatta-bed --bin regatta-bed-host
	@for part in compare theory; do \
	  "$(CARGO_TARGET_DIR)/release/regatta-bed-host" emulators $$part docs/emulators.md; \
	done

# The page that `make validity` puts its tables into; `make nightly` leaves the committed one alone.
VALIDITY ?= docs/validity.md

validity: tools-build ## False claims, coverage and power of the statistics on made data, into docs/validity.md
	cargo run --release --locked --package regatta-report --example validity -- "$(VALIDITY)"

# After a change of external/*/requirements.in.
external-lock:
	@scripts/external --lock

# What plain cargo needs to share the build directory, and nextest: eval "$(make -s env)"
env: $(CRYPTO_CMAKE)
	@echo "export CARGO_TARGET_DIR='$(CARGO_TARGET_DIR)' CMAKE_TOOLCHAIN_FILE='$(CMAKE_TOOLCHAIN_FILE)' AWS_LC_SYS_CMAKE_BUILDER=1 PATH='$(dir $(CARGO_NEXTEST))':\"\$$PATH\""

# A file of its own, as `make test` builds another binary of that name into the same directory.
build: tools-build
	@if [ -e "$(CARGO_TARGET_DIR)/release/regatta" ]; then \
	  echo "$(call step,2) compile what has changed"; \
	else \
	  echo "$(call step,2) compile Regatta and $$(grep -c '^name = ' Cargo.lock) crates, once: 5 to 10 minutes on two cores"; \
	fi
	cargo build --release --locked --package regatta-cli
	@rm -f regatta && { ln "$(CARGO_TARGET_DIR)/release/regatta" regatta 2>/dev/null || cp "$(CARGO_TARGET_DIR)/release/regatta" regatta; }

fmt: tools-build
	cargo fmt --all --check

# What `tests` checks as well.
lint: tools-build ## Lints alone
	cargo clippy --locked --workspace --all-targets --profile bench -- --deny warnings

deny: $(CARGO_DENY)
	"$(CARGO_DENY)" --locked check bans licenses sources

# With the binary of the tests, which they have just built.
readme: tests
	@REGATTA="$(CARGO_TARGET_DIR)/release/regatta" scripts/readme-commands

# In groups: see .config/nextest.toml.
tests: $(CARGO_NEXTEST) tools-build tools-test external lab-kernel
	@REGATTA_TEST_RUN_DIR=$$(mktemp -d); export REGATTA_TEST_RUN_DIR; trap 'rm -rf "$$REGATTA_TEST_RUN_DIR"' EXIT; \
	$(NEXTEST) $(NEXTEST_ARGS)

# What is too long for every change: 200 kills, the statistics on made data, the README's commands in a
# fresh clone.
nightly: build
	REGATTA_LONG_TESTS=1 $(MAKE) tests NEXTEST_ARGS="--profile nightly"
	@page=$$(mktemp); trap 'rm -f "$$page"' EXIT; cp docs/validity.md "$$page"; \
	$(MAKE) validity VALIDITY="$$page"
	PATH="$(CARGO_TARGET_DIR)/release:$$PATH" scripts/readme-commands --whole </dev/null

# Cargo goes by the time of a file, so a clone's could seem older than what another clone has built of it:
# our own crates are compiled again in another clone.
tools-build: $(CRYPTO_CMAKE)
	@echo "$(call step,1) tools to compile with"
	@scripts/need cargo cc c++ cmake libclang
	@if [ "$$(cat "$(CARGO_TARGET_DIR)/clone" 2>/dev/null)" != "$(CURDIR)" ]; then \
	  rm -rf "$(CARGO_TARGET_DIR)"/*/.fingerprint/regatta-* "$(CARGO_TARGET_DIR)"/*/build/regatta-cli-*; \
	  mkdir -p "$(CARGO_TARGET_DIR)" && echo "$(CURDIR)" >"$(CARGO_TARGET_DIR)/clone"; \
	fi

$(CRYPTO_CMAKE): scripts/crypto.cmake
	@mkdir -p $(CACHE) && cp $< $@

tools-test:
	@scripts/need chromium python3 linux.uml iptables

tools-kernel:
	@scripts/need make cc flex bison bc xz libelf linux-source-6.12

tools-bench:
	@scripts/need iperf3 libusrsctp

# The tools of the tests, pinned; without optimisation, as compiling it takes longer than it saves.
$(CARGO_DENY) $(CARGO_NEXTEST): | tools-build
	@scripts/install-tool "$@"
