# What a person types. Everything works from a clean clone; `make` alone lists it.

SWIFT ?= swift

# What the formatter looks after; folders that do not exist yet are left out.
FORMATTED := Package.swift $(wildcard Sources Tests Benchmarks Examples)
SEEDS ?= 1..10000
CLIENT_SEEDS ?= 1..400
CASES ?= 1000000
RELEASE := --configuration release --scratch-path .build-release

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test client server flaky check bench litellm simulate leaks fuzz sanitize format lint scripts openapi openai browser consumer docs packages tools

help: ## List these targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

demo: packages ## Play a guest's first minutes against a server of this machine.
	$(SWIFT) build --product sanguine
	.build/debug/sanguine demo

test: ## Build everything and run all tests.
	@Scripts/install-missing.sh tests
	$(SWIFT) build --build-tests
	$(SWIFT) test --skip-build

# A package has one test bundle, so the tests of one side need the build of all of them.
client: ## Build the client, then run the tests of the client and the model only.
	@Scripts/install-missing.sh tests
	$(SWIFT) build --target SanguineUI
	$(SWIFT) build --build-tests
	$(SWIFT) test --skip-build --filter '^(SanguineModelTests|SanguineTests|SanguineUITests)\.'

server: ## Build the server and its driver, then run the tests of both and of the model only.
	@Scripts/install-missing.sh tests
	$(SWIFT) build --target SanguineServer
	$(SWIFT) build --target SanguineSQLite
	$(SWIFT) build --build-tests
	$(SWIFT) test --skip-build --filter \
	  '^(SanguineModelTests|SanguineAuthorityTests|SanguineServerTests|SanguineSQLiteTests|StorageContractTests)\.'

flaky: packages ## Run each suite alone ROUNDS (20) times, with LOAD=1 beside busy loops.
	$(SWIFT) build --build-tests
	Scripts/flaky.sh

# A check whose tool is missing fails here, and is skipped elsewhere.
check: export REQUIRE_TOOLS = 1
check: tools lint scripts test openapi openai docs consumer simulate ## All that must hold before a change is merged.

bench: packages ## Measure a release build; prints a table, writes .build/bench.json.
	$(SWIFT) build $(RELEASE) --product Benchmarks
	mkdir -p .build
	.build-release/release/Benchmarks

litellm: packages ## Install LiteLLM's proxy, and measure it before the model that ours is measured before.
	Scripts/bench-litellm.sh

simulate: packages ## Play SEEDS (1..10000) of the simulation, and CLIENT_SEEDS with real clients.
	$(SWIFT) build $(RELEASE) --product Simulate
	.build-release/release/Simulate --seeds $(SEEDS)
	.build-release/release/Simulate --clients --seeds $(CLIENT_SEEDS)

leaks: packages ## Play the SEEDS (1..10000) of the game of users in a release build.
	$(SWIFT) build $(RELEASE) --product Simulate
	.build-release/release/Simulate --users --events 60 --seeds $(SEEDS)

fuzz: packages ## Send CASES (1000000) changed bodies and as many streams of bytes to a server.
	$(SWIFT) build $(RELEASE) --product sanguine
	$(SWIFT) build $(RELEASE) --product Fuzz
	.build-release/release/Fuzz --bodies $(CASES) --streams $(CASES)

sanitize: packages ## Run the tests under the thread sanitizer, and a fuzzed server under the address sanitizer.
	Scripts/sanitize.sh

format: ## Format all Swift files.
	$(SWIFT) format --in-place --parallel --recursive $(FORMATTED)

lint: packages ## Check format and documentation of all Swift files.
	$(SWIFT) format lint --strict --parallel --recursive $(FORMATTED)

scripts: ## Check the shell scripts.
	Scripts/check-scripts.sh

consumer: packages ## Show what an app that links the client has to build.
	Scripts/check-consumer.sh

docs: packages ## Render the documentation into .build/documentation; a broken link fails.
	Scripts/render-docs.sh

openapi: packages ## Send a server what its /openapi.json allows and forbids, for two minutes at most.
	Scripts/check-openapi.sh

browser: packages ## Follow a server's live feed in Chromium with the module of the guide, if there is one.
	Scripts/check-browser.sh

openai: packages ## Let the official openai package talk to a server, and compare the charges.
	Scripts/check-openai.sh

packages: ## Install the system packages that are missing, if any.
	@Scripts/install-missing.sh

tools: ## Install what `make check` runs, too.
	@Scripts/install-missing.sh checks
