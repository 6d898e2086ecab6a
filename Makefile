# The two commands that matter: `make demo` and `make test`. Each does its own set-up.

CARGO ?= cargo
PEERS := .peers
KUBECTL_VERSION := v1.36.3
SCHEMA := crates/apiserver/schema/kubernetes.json
FACTS := crates/apiserver/schema/facts.json
RBAC := crates/apiserver/bootstrap/rbac.jsonl
PODSECURITY := crates/apiserver/src/kinds/admission/pod_security/answers.jsonl
KUBECTL := $(PEERS)/kubectl-$(KUBECTL_VERSION)
CSI_SANITY_VERSION := v5.6.0
CSI_SANITY := $(PEERS)/csi-sanity-$(CSI_SANITY_VERSION)
CSI_PROVISIONER_VERSION := v5.1.0
CSI_PROVISIONER := $(PEERS)/csi-provisioner-$(CSI_PROVISIONER_VERSION)
CSI_RESIZER_VERSION := v1.14.0
CSI_RESIZER := $(PEERS)/csi-resizer-$(CSI_RESIZER_VERSION)
SNAPSHOTTER_VERSION := v8.6.0
CSI_SNAPSHOTTER := $(PEERS)/csi-snapshotter-$(SNAPSHOTTER_VERSION)
SNAPSHOT_CONTROLLER := $(PEERS)/snapshot-controller-$(SNAPSHOTTER_VERSION)
KUBERNETES_VERSION := v1.36.3
KUBE_APISERVER := $(PEERS)/kube-apiserver-$(KUBERNETES_VERSION)
KUBE_CONTROLLER_MANAGER := $(PEERS)/kube-controller-manager-$(KUBERNETES_VERSION)
KUBE_SCHEDULER := $(PEERS)/kube-scheduler-$(KUBERNETES_VERSION)
KUBELET := $(PEERS)/kubelet-$(KUBERNETES_VERSION)
CONTAINERD := $(PEERS)/containerd-v1-debian
ETCD_VERSION := v3.6.16
ETCD := $(PEERS)/etcd-$(ETCD_VERSION)
SNAPSHOT_CRDS := $(PEERS)/snapshot-crds-v8.6.0
CLIENT_TESTS := $(PEERS)/client-tests-v0.36.3
# What the simulation is built with: a release build takes longer than a thousand histories without one.
PROFILE ?= dev

.PHONY: help demo test sim sim-mutants sanity check tidy sweep bench bench-sidecars schema podsecurity rbac clean tools peers record

help: ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: tools ## One claim's whole journey on this machine, then clean up
	$(CARGO) build --package bowline
	$(TARGET_DIR)/debug/bowline demo

# The simulation is the one that the tests' build makes: alone it has other features, and most crates are compiled again.
test: tools peers ## Set up, check and test everything
	$(MAKE) check
	$(CARGO) test --workspace --no-run
	HISTORIES=100 SEED= $(TARGET_DIR)/debug/bowline-sim
	KUBECTL=$(abspath $(KUBECTL)) CSI_SANITY=$(abspath $(CSI_SANITY)) SNAPSHOT_CRDS=$(abspath $(SNAPSHOT_CRDS)) ETCD=$(abspath $(ETCD)) CLIENT_TESTS=$(abspath $(CLIENT_TESTS)) \
		KUBE_APISERVER=$(abspath $(KUBE_APISERVER)) KUBE_CONTROLLER_MANAGER=$(abspath $(KUBE_CONTROLLER_MANAGER)) KUBE_SCHEDULER=$(abspath $(KUBE_SCHEDULER)) \
		KUBELET=$(abspath $(KUBELET)) CONTAINERD=$(abspath $(CONTAINERD)) \
		CSI_PROVISIONER=$(abspath $(CSI_PROVISIONER)) CSI_RESIZER=$(abspath $(CSI_RESIZER)) \
		CSI_SNAPSHOTTER=$(abspath $(CSI_SNAPSHOTTER)) SNAPSHOT_CONTROLLER=$(abspath $(SNAPSHOT_CONTROLLER)) $(CARGO) test --workspace --no-fail-fast

sim: ## Whole clusters in memory under seeded faults (a hundred are a part of `test`; HISTORIES=1000; SEED=17 replays one; PROFILE=release for many)
	$(CARGO) build --profile $(PROFILE) --package bowline-sim
	HISTORIES=$(HISTORIES) SEED=$(SEED) FAULTS="$(FAULTS)" $(TARGET_DIR)/$(subst dev,debug,$(PROFILE))/bowline-sim

sim-mutants: ## Whether the simulation finds each of the mutations in crates/sim/mutants (not a part of `test`)
	scripts/sim-mutants

sanity: tools $(CSI_SANITY) ## Only csi-sanity against the drivers (a part of `test`)
	CSI_SANITY=$(abspath $(CSI_SANITY)) $(CARGO) test --package bowline --test sanity

peers: $(KUBECTL) $(CSI_SANITY) $(SNAPSHOT_CRDS) $(ETCD) $(CLIENT_TESTS) $(KUBE_APISERVER) $(KUBE_CONTROLLER_MANAGER) $(KUBE_SCHEDULER) $(KUBELET) $(CONTAINERD) $(CSI_PROVISIONER) $(CSI_RESIZER) $(CSI_SNAPSHOTTER) $(SNAPSHOT_CONTROLLER) ## Upstream's programs and files that the tests use

record: $(KUBECTL) $(SNAPSHOT_CRDS) $(CLIENT_TESTS) $(KUBE_APISERVER) $(KUBE_CONTROLLER_MANAGER) $(ETCD) ## Record anew what upstream's API server answers to tests/kubectl (RECORD="apply get" for some themes)
	$(CARGO) test --package bowline --test conformance -- --ignored --exact record
	$(CARGO) test --package bowline --test client_go -- --ignored --exact upstream

check: ## Format, clippy with warnings denied, tidy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- --deny warnings
	$(CARGO) test --quiet --package xtask

tidy: ## Only the house rules (a test of its own)
	$(CARGO) test --package xtask

sweep: tools ## Kill `bowline up` at every hit of every failpoint, not only at every point (long; `test` has the short one)
	EVERY_HIT=1 $(CARGO) test --package bowline --test crash -- --nocapture

bench: tools $(KUBE_APISERVER) $(ETCD) $(KUBE_CONTROLLER_MANAGER) $(KUBE_SCHEDULER) $(CSI_PROVISIONER) ## Start-up, journeys, programs, API servers, driver (and others: BENCH_FLAGS="--csi-endpoint …"); figures go to docs/benchmarks.md by hand
	$(CARGO) build --release --package bowline --package bowline-bench
	$(TARGET_DIR)/release/bowline-bench all $(TARGET_DIR)/release/bowline \
		--kube-apiserver $(KUBE_APISERVER) --etcd $(ETCD) --kube-controller-manager $(KUBE_CONTROLLER_MANAGER) \
		--kube-scheduler $(KUBE_SCHEDULER) --csi-provisioner $(CSI_PROVISIONER) $(BENCH_FLAGS)

bench-sidecars: tools $(KUBE_APISERVER) $(ETCD) $(KUBE_CONTROLLER_MANAGER) $(SNAPSHOT_CRDS) $(CSI_PROVISIONER) $(CSI_RESIZER) $(CSI_SNAPSHOTTER) $(SNAPSHOT_CONTROLLER) ## All sidecars, ours and upstream's (BENCH_FLAGS="--phase claims --subject bowline --csi-attacher …")
	$(CARGO) build --release --package bowline --package bowline-bench
	$(TARGET_DIR)/release/bowline-bench sidecars $(TARGET_DIR)/release/bowline \
		--kube-apiserver $(KUBE_APISERVER) --etcd $(ETCD) --kube-controller-manager $(KUBE_CONTROLLER_MANAGER) --snapshot-crds $(SNAPSHOT_CRDS) \
		--csi-provisioner $(CSI_PROVISIONER) --csi-resizer $(CSI_RESIZER) --csi-snapshotter $(CSI_SNAPSHOTTER) \
		--snapshot-controller $(SNAPSHOT_CONTROLLER) $(BENCH_FLAGS)

schema: ## Take the fields of upstream's kinds anew from the Go modules in tests/peers
	cd tests/peers && go run ./schema > $(abspath $(SCHEMA)).new && mv $(abspath $(SCHEMA)).new $(abspath $(SCHEMA))
	cd tests/peers && go run ./facts $(abspath $(SCHEMA)) > $(abspath $(FACTS)).new && mv $(abspath $(FACTS)).new $(abspath $(FACTS))

podsecurity: ## Take what upstream's PodSecurity says of tests/peers/podsecurity/settings.json from its Go module
	cd tests/peers && go run ./podsecurity podsecurity/settings.json > $(abspath $(PODSECURITY)).new && mv $(abspath $(PODSECURITY)).new $(abspath $(PODSECURITY))

rbac: $(KUBECTL) ## Take upstream's default roles anew from the fresh kube-apiserver that KUBECONFIG names
	scripts/record-rbac $(abspath $(KUBECTL)) > $(RBAC).new && mv $(RBAC).new $(RBAC)

clean: ## Remove what the targets above made
	$(CARGO) clean
	rm -rf $(PEERS)

TARGET_DIR = $(or $(CARGO_TARGET_DIR),target)

tools: ## Filesystem tools that the local driver runs
	@scripts/install-tools

# A current kubectl, built from its Go module: the client our API server must satisfy.
$(KUBECTL): tests/peers/go.mod tests/peers/kubectl/main.go
	scripts/build-kubectl $(KUBECTL_VERSION) $(abspath $@)

# Upstream's own checks of a CSI driver.
$(CSI_SANITY): tests/peers/csi-sanity/go.mod
	scripts/build-csi-sanity $(CSI_SANITY_VERSION) $(abspath $@)

# Upstream's sidecar that makes volumes, to work beside our controllers.
$(CSI_PROVISIONER): tests/peers/csi-provisioner/go.mod
	scripts/build-csi-provisioner $(CSI_PROVISIONER_VERSION) $(abspath $@)

# Upstream's sidecar that enlarges and modifies volumes.
$(CSI_RESIZER): tests/peers/csi-resizer/go.mod
	scripts/build-csi-resizer $(CSI_RESIZER_VERSION) $(abspath $@)

# Upstream's sidecar that takes snapshots, and the controller beside it.
$(CSI_SNAPSHOTTER) $(SNAPSHOT_CONTROLLER): $(PEERS)/%-$(SNAPSHOTTER_VERSION): tests/peers/csi-snapshotter/go.mod
	scripts/build-snapshotter $* $(SNAPSHOTTER_VERSION) $(abspath $@)

# The CRDs of snapshots, as upstream publishes them.
$(SNAPSHOT_CRDS): tests/peers/snapshot-crds/go.mod
	scripts/fetch-snapshot-crds $(abspath $@)

# Our tests in Go, with the client-go that other people's programs use.
$(CLIENT_TESTS): tests/peers/go.mod $(wildcard tests/peers/client/*.go)
	scripts/build-client-tests $(abspath $@)

# Upstream's programs and the etcd under them: what ours are compared with.
$(KUBE_APISERVER) $(KUBE_CONTROLLER_MANAGER) $(KUBE_SCHEDULER) $(KUBELET): $(PEERS)/%-$(KUBERNETES_VERSION): tests/peers/kubernetes/go.mod
	scripts/build-kubernetes $* $(KUBERNETES_VERSION) $(abspath $@)

$(ETCD): tests/peers/etcd/go.mod
	scripts/build-etcd $(ETCD_VERSION) $(abspath $@)

# What upstream's kubelet runs pods with.
$(CONTAINERD): scripts/fetch-containerd
	scripts/fetch-containerd $(abspath $@)
