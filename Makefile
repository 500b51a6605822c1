# The commands a newcomer needs. Each one installs and builds what it needs first.

CARGO ?= cargo
PROFILE_DIR := target/release

.PHONY: all setup build demo test check bench clean help

all: build

help: ## This list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

setup: ## Install clang 19 and LLVM 19 where they are missing
	@scripts/setup

build: setup ## Build crashpoint, crashpoint-cc, crashpoint-c++ and their libraries
	$(CARGO) build --release --workspace

demo: build ## Record and lint an example with seeded bugs, then its repaired twin
	$(PROFILE_DIR)/crashpoint demo

check: setup ## Formatting and lints, warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --release -- -D warnings

test: check build ## Everything CI runs: check, then all tests with the corpus
	$(CARGO) test --release --workspace

bench: build ## Every benchmark; see bench/README.md
	bench/run all

clean: ## Remove what was built
	$(CARGO) clean
