# Commands for users and developers. All of them work in a fresh clone, as root or as an ordinary user,
# without a terminal.
#
# make run      install what is missing, build, run the default study, show the results
# make test     formatting, lints, all tests, licences
# make bench    ratios against iperf3, usrsctp and minimal programs on the same libraries
# make docs     the tables of docs/ that are made from the source
# make fuzz     every fuzz target for ten minutes
# make slice    a part of the long forms of the tests, as in .ci/run
# make mutants  mistakes planted into changed lines, which the tests must notice
# make limits   numbers of crates, build scripts and lock files against their limits
# make lines    lines of code by crate: product, tools and tests
# make pdf      the typesetter of PDF reports and its fonts
# make doctor   what this machine supports
# make lab-kernel the guest kernel for virtual time
# make cross-check compare both emulators with each other and with theory, in docs/emulators.md
# make conformance what each stack does alone, in docs/conformance.md
# make competition several transports on one bottleneck, in docs/competition.md
# make handshakes short exchanges by handshake, in docs/transports/quic-noq.md
# make replications the five published experiments beside what their studies measure, in docs/replications.md
# make validity error rates, coverage and power of the statistics, in docs/validity.md
# make external the external drivers in Python and Go
# make package  the program by itself, Debian packages and a Python wheel, in dist/
# make package-test each of them installed and run in a clean root
# make export-readers pandas and DuckDB, with which the tests read exports

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Steps share one build directory, and measurements need the machine for themselves.
.NOTPARALLEL:

CACHE := $(HOME)/.cache/regatta
# All clones of a user share one build directory, so that a fresh clone builds in seconds.
export CARGO_TARGET_DIR ?= $(CACHE)/target
export PATH := $(HOME)/.cargo/bin:$(PATH)

# CMake settings for the cryptographic libraries in C. All clones use the same path, because another path would
# compile them again.
CRYPTO_CMAKE := $(CACHE)/crypto-$(firstword $(shell sha256sum scripts/crypto.cmake | cut -c1-12)).cmake
export CMAKE_TOOLCHAIN_FILE := $(CRYPTO_CMAKE)
export AWS_LC_SYS_CMAKE_BUILDER := 1

# Directory of the programs: `.cargo/config.toml` names the target.
BUILT = $(CARGO_TARGET_DIR)/$(shell rustc --version --verbose | sed -n 's/^host: //p')/release

# Tools of the tests. The versions are in scripts/requirements/cargo-tools.in.
CARGO_TOOLS := $(CACHE)/cargo-tools/bin
CARGO_DENY := $(CARGO_TOOLS)/cargo-deny
CARGO_NEXTEST := $(CARGO_TOOLS)/cargo-nextest

# Tests use the profile `bench`: see Cargo.toml. Clippy compiles the tests, so that lints need no separate build
# of every crate.
CLIPPY = RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
NEXTEST = env $(CLIPPY) "$(CARGO_NEXTEST)" nextest run --locked --workspace --cargo-profile bench

.PHONY: help run test pdf bench docs fuzz doctor lab-kernel cross-check conformance competition handshakes round-trips replications replications-page validity external export-readers cargo-tools package package-test external-lock env build fmt lint deny readme tests test-preparation limits lines mutants slice tools-build tools-test tools-bench tools-kernel tools-package

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Progress of `make run`, also visible to its prerequisites.
step = ==
run: step = == step $(1) of 4:

run: build ## Build in release, run the default study, show the results
	@echo "$(call step,3) the default study, less than two minutes (./regatta run)"
	@results="regatta-results/default-$$(date -u +%Y%m%dT%H%M%SZ)"; \
	./regatta run --out "$$results" && code=0 || code=$$?; \
	[ ! -e "$$results/report.html" ] || [ -e "$$results/brief.pdf" ] || \
	  { echo "$(call step,4) the report on two pages, half a minute (make pdf)" && \
	  make --no-print-directory pdf && ./regatta report "$$results" --pdf=brief; } || \
	  echo "All is there but brief.pdf. To make it: make pdf && ./regatta report $$results --pdf=brief"; \
	echo "The binary is ./regatta: try './regatta --help'."; exit $$code

pdf: ## Fetch the typesetter of PDF reports and figures, and its fonts: 37 MB, half a minute
	@scripts/need python3 python3-venv
	@scripts/python-environment pdf

doctor: build ## Show what this machine supports, and what to type where something is missing
	./regatta doctor

test: fmt tests deny readme replications-page ## Formatting, lints, licences, the README's commands, all tests

bench: tools-build tools-bench ## Ratios against iperf3, usrsctp and minimal programs
	PATH="$$(dirname "$$(scripts/current-iperf3)"):$$PATH" cargo run --release --locked --package regatta-bench -- --history bench/history.csv $(BENCH_ARGS)

docs: cargo-tools tools-build ## Write the tables of docs/ that are made from the source
	REGATTA_WRITE_DOCS=1 $(NEXTEST) --bin regatta -E 'test(/^documents::/)'
	scripts/replications

fuzz: cargo-tools tools-build ## Run every fuzz target for ten minutes, from another seed each day
	@scripts/fuzz $(NEXTEST) --test-threads num-cpus -E 'binary(fuzz)' $(NEXTEST_ARGS)

external: ## Build the external drivers: quic-aioquic, sctp-pysctp, quic-go
	@scripts/external

export-readers: ## Install pandas and DuckDB for the examples of docs/export.md
	@scripts/python-environment export-readers

# Directory of the packages.
DIST := dist

package: build lab-kernel tools-package pdf ## Make the program by itself, Debian packages and a Python wheel, in dist/: 2 minutes after `make run`, once 5 more for the guest kernel
	@scripts/python-environment packaging
	@echo "making the packages: 2 minutes on two cores"
	packaging/build regatta "$$(lab/build-kernel --path)" "$(DIST)"

package-test: package ## Install and run each package in a clean root
	packaging/test "$(DIST)"

lab-kernel: ## Build the guest kernel for virtual time, unless the cache has it
	@[ -x "$$(lab/build-kernel --path)" ] || $(MAKE) --no-print-directory tools-kernel
	@lab/build-kernel

# They run in virtual time, so that their tables do not depend on the machine or its load.

# Directory of the runs, one for each build, guest kernel and set of studies: a run that was stopped goes on.
CONFORMANCE = regatta-results/conformance-$(shell sha256sum regatta docs/conformance.toml docs/loss-response*.toml external/*/requirements.txt external/*/go.sum "$$(lab/build-kernel --path)" 2>/dev/null | sha256sum | cut -c1-12)

conformance: build lab-kernel external ## Measure what each stack does alone, in docs/conformance.md: half an hour of CPU
	scripts/conformance run ./regatta "$(CONFORMANCE)" 2
	scripts/conformance page ./regatta "$(CONFORMANCE)"
	$(MAKE) --no-print-directory docs

competition: build lab-kernel ## Measure several transports on one bottleneck, in docs/competition.md: an hour of CPU
	rm -rf regatta-results/competition-bbr
	./regatta run competition-bbr --jobs 2 --no-progress --out regatta-results/competition-bbr
	$(call study,competition-equals)
	$(call study,competition-long)
	$(call study,competition-rtt)
	$(call study,competition-rtt-target)
	$(call study,competition-queues)
	scripts/competition ./regatta $(foreach part,bbr equals long rtt rtt-target queues,$(part)=regatta-results/competition-$(part))

handshakes: build lab-kernel ## Measure short exchanges by handshake, in docs/transports/quic-noq.md
	$(call study,handshakes)
	scripts/handshakes regatta-results/handshakes $(HANDSHAKES)

round-trips: build lab-kernel external ## Measure round trips of small transfers, the figure of docs/stacks.md
	$(call study,round-trips)
	./regatta report regatta-results/round-trips --figures regatta-results/round-trips/figures
	cp regatta-results/round-trips/figures/sweep-0-transfer-time-ns.svg docs/round-trips.svg

# Directory of the runs, of which those that are there are not made again.
REPLICATIONS := regatta-results/replications

replications: build lab-kernel external ## Run the five published experiments, or those of RUNS, and write docs/replications.md: more than a day, which can be stopped
	scripts/replications run "$(REPLICATIONS)" $(RUNS)
	scripts/replications "$(REPLICATIONS)"

replications-page:
	scripts/replications --check

cross-check: lab-kernel ## Compare both emulators with each other and with theory, in docs/emulators.md
	cargo build --locked --profile bench --package regatta-bed-host
	@for part in compare queues theory; do \
	  "$(BUILT)/regatta-bed-host" emulators $$part docs/emulators.md; \
	done

# Runs a study of docs/.
study = rm -rf "regatta-results/$(1)" && ./regatta run "docs/$(1).toml" --jobs 2 --no-progress --out "regatta-results/$(1)"

# Page into which `make validity` writes its tables. `make nightly` uses a copy.
VALIDITY ?= docs/validity.md

validity: tools-build ## False claims, coverage and power of the statistics on synthetic data, in docs/validity.md
	cargo run --release --locked --package regatta-report --example validity -- "$(VALIDITY)"

# To be run after a change of external/*/requirements.in or scripts/requirements/*.in.
external-lock:
	@scripts/external --lock
	@scripts/python-environment --lock

# Environment with which plain cargo shares the build directory and finds nextest: eval "$(make -s env)"
env: $(CRYPTO_CMAKE)
	@echo "export CARGO_TARGET_DIR='$(CARGO_TARGET_DIR)' CMAKE_TOOLCHAIN_FILE='$(CMAKE_TOOLCHAIN_FILE)' AWS_LC_SYS_CMAKE_BUILDER=1 PATH='$(dir $(CARGO_NEXTEST))':\"\$$PATH\""

# Puts a program into the clone.
place = rm -f "$(notdir $(1))" && { ln "$(1)" "$(notdir $(1))" 2>/dev/null || cp "$(1)" "$(notdir $(1))"; }

# `regatta` is a copy or a hard link, because `make test` builds another binary of that name into the build directory.
build: tools-build
	@if [ -e "$(BUILT)/regatta" ]; then \
	  echo "$(call step,2) compile what has changed"; \
	else \
	  echo "$(call step,2) compile Regatta and $$(grep -c '^name = ' Cargo.lock) crates, once: six minutes on two cores"; \
	fi
	cargo build --release --locked --package regatta-cli
	@$(call place,$(BUILT)/regatta)

fmt: tools-build
	scripts/step formatting cargo fmt --all --check

# `tests` checks lints, too.
lint: tools-build ## Lints alone
	cargo clippy --locked --workspace --all-targets --profile bench -- --deny warnings

deny: cargo-tools
	scripts/step licences "$(CARGO_DENY)" --locked check bans licenses sources

# Uses the binary that the tests have just built.
readme: tests
	@REGATTA="$(BUILT)/regatta" scripts/step README scripts/readme-commands

# The groups of tests, and what they may cost, are in .config/nextest.toml.
tests: tools-build
	@CARGO_NEXTEST="$(CARGO_NEXTEST)" LINTS="$(CLIPPY)" BUILT="$(BUILT)" scripts/run-tests $(NEXTEST_ARGS)

# What tests need beside the program. What waits for the network comes first: it leaves the processors to the compilation
# beside it.
test-preparation: tools-test pdf export-readers external cargo-tools lab-kernel

mutants: tools-build ## Mutants of the lines of stats, emulation and report/analysis that changed since BASE, or the last 7 commits
	@scripts/mutants $(BASE)

limits: ## Compare the numbers of crates, build scripts and lock files with .ci/limits.toml
	@scripts/check-limits

lines: ## Show lines of code by crate and language: product, tools and tests
	@.ci/steps lines

# A part of the long forms of the checks: .ci/slice has their list.
slice: ## Run one of the seven slices of the long forms: SLICE=0 to SLICE=6, or that of this commit
	@.ci/slice $(SLICE)

# Cargo compares times of files. A file of this clone could be older than the build of another clone, so that cargo
# would not compile it. Regatta's own crates are therefore compiled again after a change of the clone.
tools-build: $(CRYPTO_CMAKE)
	@echo "$(call step,1) tools to compile with"
	@scripts/need cargo cc c++ libc.a cmake libclang
	@if [ "$$(cat "$(CARGO_TARGET_DIR)/clone" 2>/dev/null)" != "$(CURDIR)" ]; then \
	  rm -rf "$(CARGO_TARGET_DIR)"/{,*/}release/.fingerprint/regatta-* "$(CARGO_TARGET_DIR)"/{,*/}release/build/regatta-cli-*; \
	  mkdir -p "$(CARGO_TARGET_DIR)" && echo "$(CURDIR)" >"$(CARGO_TARGET_DIR)/clone"; \
	fi

$(CRYPTO_CMAKE): scripts/crypto.cmake
	@mkdir -p $(CACHE) && cp $< $@

tools-test:
	@scripts/need chromium-headless-shell pdftotext promtool python3 Rscript linux.uml modprobe iptables sshd sudo

tools-kernel:
	@scripts/need make cc flex bison bc patch xz libelf linux-source-6.12

tools-package:
	@scripts/need dh lintian mmdebstrap bwrap busybox linux-source-6.12

tools-bench:
	@scripts/need iperf3 libusrsctp

cargo-tools: ## Install cargo-nextest and cargo-deny, with which the tests run
	@scripts/need python3 python3-venv
	@scripts/python-environment cargo-tools
