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
# make external the drivers that are programs of their own, in Python and in Go

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Steps share one build directory and one machine that is being measured.
.NOTPARALLEL:

# One build directory for every clone of this user, so that a fresh one builds in seconds.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/regatta/target
export PATH := $(HOME)/.cargo/bin:$(PATH)

TOOLS := $(HOME)/.cache/regatta/tools
CARGO_DENY_VERSION := 0.20.2
CARGO_DENY := $(TOOLS)/cargo-deny-$(CARGO_DENY_VERSION)/bin/cargo-deny

.PHONY: help run test bench fuzz doctor lab-kernel cross-check external external-lock build fmt lint deny readme tests tools-build tools-test tools-bench tools-kernel

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## Build in release, run the default study, show the results
	./regatta run
	@echo "The binary is ./regatta: try './regatta --help'."

doctor: build ## Show what this machine can do, and what to type where it cannot
	./regatta doctor

test: fmt lint deny readme tests ## Formatting, lints, licences, the README's commands, all tests

bench: build tools-bench ## Ratios against iperf3, usrsctp and minimal programs
	cargo run --release --locked --package regatta-bench -- $(BENCH_ARGS)

fuzz: tools-build ## Damaged input for every fuzz target, ten minutes each, from another seed each day
	@scripts/fuzz

external: ## Make the external drivers: quic-aioquic, sctp-pysctp, quic-go
	@scripts/external

lab-kernel: ## Build the guest kernel for virtual time, unless the cache has it
	@[ -x "$$(lab/build-kernel --path)" ] || $(MAKE) --no-print-directory tools-kernel
	@lab/build-kernel

cross-check: lab-kernel ## Both emulators against each other and theory, into docs/emulators.md
	cargo build --locked --package regatta-bed --bin regatta-bed-host
	@for part in compare theory; do \
	  "$(CARGO_TARGET_DIR)/debug/regatta-bed-host" emulators $$part docs/emulators.md; \
	done

# After a change of external/*/requirements.in.
external-lock:
	@scripts/external --lock

# The link lets the commands of the README be typed as they stand there.
build: tools-build
	cargo build --release --locked --package regatta-cli
	ln -sfn "$(CARGO_TARGET_DIR)/release/regatta" regatta

fmt: tools-build
	cargo fmt --all --check

lint: tools-build
	cargo clippy --locked --workspace --all-targets -- --deny warnings

deny: $(CARGO_DENY)
	"$(CARGO_DENY)" --locked check bans licenses sources

readme: build
	@if [ -x scripts/readme-commands ]; then PATH="$(CARGO_TARGET_DIR)/release:$$PATH" scripts/readme-commands </dev/null; fi

# Last, so that the output ends with the sum of the tests' own summary lines.
tests: tools-build tools-test external lab-kernel
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; ended=0; \
	cargo test --locked --workspace --no-fail-fast 2>&1 | tee "$$log" || ended=1; \
	awk '/^test result:/ { passed += $$4; failed += $$6 } \
	     END { printf "%d passed, %d failed\n", passed, failed }' "$$log"; \
	exit $$ended

tools-build:
	@scripts/need cargo cc c++ cmake libclang

tools-test:
	@scripts/need chromium python3 linux.uml iptables

tools-kernel:
	@scripts/need make cc flex bison bc xz libelf linux-source-6.12

tools-bench:
	@scripts/need iperf3 libusrsctp

$(CARGO_DENY): | tools-build
	cargo install --locked --version $(CARGO_DENY_VERSION) --root "$(TOOLS)/cargo-deny-$(CARGO_DENY_VERSION)" cargo-deny
