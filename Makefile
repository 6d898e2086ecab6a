# The two commands that matter: `make demo` and `make test`. Each does its own set-up.

CARGO ?= cargo
PEERS := .peers
KUBECTL_VERSION := v1.36.3
SCHEMA := crates/apiserver/schema/kubernetes.json
KUBECTL := $(PEERS)/kubectl-$(KUBECTL_VERSION)

.PHONY: help demo test check tidy bench schema clean tools

help: ## Show the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: tools ## One claim's whole journey on this machine, then clean up
	$(CARGO) build --package bowline
	$(TARGET_DIR)/debug/bowline demo

test: tools $(KUBECTL) ## Set up, check and test everything
	$(MAKE) check
	KUBECTL=$(abspath $(KUBECTL)) $(CARGO) test --workspace

check: ## Format, clippy with warnings denied, tidy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- --deny warnings
	$(CARGO) test --quiet --package xtask

tidy: ## Only the house rules (a test of its own)
	$(CARGO) test --package xtask

bench: tools ## Journeys, start-up and memory; figures go to docs/benchmarks.md by hand
	$(CARGO) build --release --package bowline --package bowline-bench
	$(TARGET_DIR)/release/bowline-bench $(TARGET_DIR)/release/bowline

schema: ## Take the fields of upstream's kinds anew from the Go modules in tests/peers
	cd tests/peers && go run ./schema > $(abspath $(SCHEMA)).new && mv $(abspath $(SCHEMA)).new $(abspath $(SCHEMA))

clean: ## Remove what the targets above made
	$(CARGO) clean
	rm -rf $(PEERS)

TARGET_DIR = $(or $(CARGO_TARGET_DIR),target)

tools: ## Filesystem tools that the local driver runs
	@scripts/install-tools

# A current kubectl, built from its Go module: the client our API server must satisfy.
$(KUBECTL): tests/peers/go.mod tests/peers/kubectl/main.go
	scripts/build-kubectl $(KUBECTL_VERSION) $(abspath $@)
