# The commands for developers. All work from a clean clone; `make` without a target lists them.

SWIFT ?= swift
export SWIFT

# The formatted files; folders that do not exist are left out.
FORMATTED := Package.swift $(wildcard Sources Tests Benchmarks Examples)
SEEDS ?= 1..10000
CLIENT_SEEDS ?= 1..400
CASES ?= 1000000
SECONDS ?= 3600
RECORDS ?= 100000
USERS ?= 200
ROWS ?= 1000000
RELEASE := --configuration release --scratch-path .build-release

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test client server flaky check bench litellm simulate leaks fuzz uploads sanitize format lint scripts openapi openai tus browser consumer docs packages tools

help: ## List these targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

demo: packages ## Play a guest's first minutes against a local server.
	$(SWIFT) build --product sanguine
	.build/debug/sanguine demo

test: ## Build everything and run all tests.
	@Scripts/install-missing.sh tests
	$(SWIFT) build --build-tests
	Scripts/test.sh

# A package has one test bundle, so the tests of one side need a build of all tests.
client: ## Build the client, then run the tests of the client and the model only.
	@Scripts/install-missing.sh tests
	$(SWIFT) build --target SanguineUI
	$(SWIFT) build --build-tests
	Scripts/test.sh --filter '^(SanguineModelTests|SanguineTests|SanguineUITests)\.'

server: ## Build the server and its driver, then run the tests of both and of the model only.
	@Scripts/install-missing.sh tests
	$(SWIFT) build --target SanguineServer
	$(SWIFT) build --target SanguineSQLite
	$(SWIFT) build --build-tests
	Scripts/test.sh --filter \
	  '^(SanguineModelTests|SanguineAuthorityTests|SanguineServerTests|SanguineSQLiteTests|StorageContractTests)\.'

flaky: packages ## Run each suite in its own process ROUNDS (20) times; with LOAD=1 under load.
	$(SWIFT) build --build-tests
	Scripts/flaky.sh

# A check whose tool is missing fails here; elsewhere it is skipped.
check: export REQUIRE_TOOLS = 1
check: tools lint scripts test openapi openai tus docs consumer simulate ## Run all checks that a change must pass.

bench: packages ## Measure a release build, with a restore of RECORDS (100000), USERS (200) and ROWS (1000000); writes .build/bench.json.
	$(SWIFT) build $(RELEASE) --product sanguine
	$(SWIFT) build $(RELEASE) --product Benchmarks
	mkdir -p .build
	.build-release/release/Benchmarks --records $(RECORDS) --users $(USERS) --rows $(ROWS)

litellm: packages ## Install LiteLLM's proxy and measure it with the same model as our server.
	Scripts/bench-litellm.sh

simulate: packages ## Run the simulation with SEEDS (1..10000), and twice with CLIENT_SEEDS (1..400) and real clients.
	$(SWIFT) build $(RELEASE) --product Simulate
	.build-release/release/Simulate --seeds $(SEEDS)
	.build-release/release/Simulate --clients --seeds $(CLIENT_SEEDS)
	.build-release/release/Simulate --clients --threads --seeds $(CLIENT_SEEDS)

leaks: packages ## Run the game of users who share a device, with SEEDS (1..10000), in a release build.
	$(SWIFT) build $(RELEASE) --product Simulate
	.build-release/release/Simulate --users --events 60 --seeds $(SEEDS)

fuzz: packages ## Send CASES (1000000) mutated bodies and as many streams of bytes to a server.
	$(SWIFT) build $(RELEASE) --product sanguine
	$(SWIFT) build $(RELEASE) --product Fuzz
	.build-release/release/Fuzz --bodies $(CASES) --streams $(CASES)

uploads: packages ## Upload changed images and videos to a server for SECONDS (3600).
	@Scripts/install-missing.sh tests
	$(SWIFT) build $(RELEASE) --product sanguine
	$(SWIFT) build $(RELEASE) --product Fuzz
	Scripts/fuzz-uploads.sh $(SECONDS)

sanitize: packages ## Run the tests under the thread sanitizer, and a server and images under the address sanitizer.
	Scripts/sanitize.sh

format: ## Format all Swift files.
	$(SWIFT) format --in-place --parallel --recursive $(FORMATTED)

lint: packages ## Check format and documentation of all Swift files.
	$(SWIFT) format lint --strict --parallel --recursive $(FORMATTED)

scripts: ## Check the shell scripts.
	Scripts/check-scripts.sh

consumer: packages ## List what an app that links the client has to build.
	Scripts/check-consumer.sh

docs: packages ## Render the documentation into .build/documentation; a broken link is an error.
	Scripts/render-docs.sh

openapi: packages ## Send a server valid and invalid requests from its /openapi.json, for up to two minutes.
	Scripts/check-openapi.sh

browser: packages ## Follow a server's live feed in Chromium, if it is installed, with the guide's module.
	Scripts/check-browser.sh

openai: packages ## Call a server with the official openai package, and compare the charges.
	Scripts/check-openai.sh

tus: packages ## Upload files to a server with tuspy, the Python client of the tus protocol.
	Scripts/check-tus.sh

packages: ## Install missing system packages.
	@Scripts/install-missing.sh

tools: ## Install the packages that `make check` also needs.
	@Scripts/install-missing.sh checks
