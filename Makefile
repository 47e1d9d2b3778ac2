# What a developer runs here. "make" alone lists it.

GO            ?= go
GOLANGCI_LINT := $(GO) tool -modfile=hack/tools/golangci-lint/go.mod golangci-lint
TEST_TIMEOUT  ?= 30m
# gomega waits for a second by default. On a busy machine a test may not run for as long as that.
export GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT ?= 2m
# Without the paths of this clone in them, packages that were compiled in another one are found in Go's cache.
export GOFLAGS := -trimpath $(filter-out -trimpath,$(GOFLAGS))

# The Gardener resource manager that tests of the migration run beside the hub, in the version that hack/grm/go.mod pins.
GRM_MODULE := github.com/gardener/gardener
GRM        := bin/grm/$(shell awk '$$1 == "$(GRM_MODULE)" {print $$2}' hack/grm/go.mod)/gardener-resource-manager

# What measures a hub, in a module of its own.
PERF := $(GO) -C hack/perf build -o $(CURDIR)/bin/tools/perf . && bin/tools/perf

# Prometheus and Alertmanager, for those who want to see the hub as its operators do.
MONITORING_DIR := bin/monitoring

.DEFAULT_GOAL := help

##@ Try

.PHONY: demo
demo: kube $(if $(MONITORING),monitoring) ## Watch one hub keep several clusters in order. ONCE=1: end by itself, and fail if anything shown is not true. MONITORING=1: with a Prometheus
	$(GO) run ./hack/demo $(if $(ONCE),--once) $(if $(MONITORING),--monitoring $(abspath $(MONITORING_DIR)))

.PHONY: bench
bench: kube ## Measure drift latency and objects applied per second on real control planes
	$(PERF) bench $(ARGS)

.PHONY: fleetsim
fleetsim: ## Run TARGETS (default 10) simulated API servers and print the Secrets that register them. OBJECTS=shoot-20 fills them
	@$(GO) build -o bin/fleetsim ./hack/fleetsim/cmd
	@exec bin/fleetsim --targets $(or $(TARGETS),10) --objects $(or $(OBJECTS),none) $(ARGS)

.PHONY: fleet
fleet: kube ## Put a hub on trial with TARGETS (default 1000) simulated targets of OBJECTS (default 300) each, against the goals
	$(PERF) fleet -targets $(or $(TARGETS),1000) -objects $(or $(OBJECTS),300) $(ARGS)

.PHONY: foreign
foreign: kube ## Start a hub without and with SECRETS (default 100000) of others in the source, and measure what they cost
	$(PERF) foreign -secrets $(or $(SECRETS),100000) $(ARGS)

.PHONY: failover
failover: kube ## End a leading hub KILLS (default 50) times under load, in several ways, and measure when its standby goes on
	$(PERF) failover -kills $(or $(KILLS),50) $(ARGS)

.PHONY: faults
faults: kube ## Bring each fault together with each phase of the hub's work on a target. RUN="503/" picks, SHORT=1 leaves latencies out
	$(PERF) faults $(if $(RUN),-run '$(RUN)') $(if $(SHORT),-window 0 -healthy 5) $(ARGS)

.PHONY: hostile
hostile: kube ## Attack a hub as tenants and targets can, under a memory limit, beside honest targets. RUN="^5/" picks, QUICK=1 is a selection
	$(PERF) hostile $(if $(RUN),-run '$(RUN)') $(if $(QUICK),-quick) $(ARGS)

.PHONY: soak
soak: kube ## Let a hub run for MINUTES (default 60) with everything going on, and look what is left behind. CYCLES=500: targets come and go
	$(PERF) $(if $(CYCLES),cycles -cycles $(CYCLES),soak -minutes $(or $(MINUTES),60)) $(ARGS)

##@ Develop

.PHONY: build
build: ## Build the commands into bin/, with version, commit and date
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "$$(hack/stamp.sh)" -o bin/ ./cmd/...
	@ln -sf trellisctl bin/kubectl-trellis # "kubectl trellis", and its completion
	@ln -sf trellisctl bin/kubectl_complete-trellis

.PHONY: image
image: licences ## Assemble the image of the hub in bin/image, for amd64 and arm64, without a container engine, and see it start. REPOSITORY=name
	@$(GO) -C hack/image build -o $(CURDIR)/bin/tools/image .
	GO=$(GO) bin/tools/image -out bin/image -licences bin/licences/LICENCES $(if $(REPOSITORY),-repository $(REPOSITORY))

.PHONY: publish
publish: image ## Push the image and the chart to REGISTRY=registry.example.com/trellis. KEY=cosign.key signs both, COSIGN_PASSWORD is its password
	@test -n "$(REGISTRY)" || { echo "make publish needs REGISTRY=registry.example.com/trellis" >&2; exit 2; }
	@$(GO) -C hack/image build -o $(CURDIR)/bin/tools/publish ./publish
	@bin/tools/publish -registry $(REGISTRY) -version "$$(hack/stamp.sh version)" $(if $(KEY),-key $(KEY))

.PHONY: release
release: ## Build everything that a release consists of into bin/release. PLATFORMS="linux/amd64 ..." picks
	GO=$(GO) $(if $(PLATFORMS),PLATFORMS="$(PLATFORMS)") hack/release.sh

.PHONY: generate
generate: ## Generate deep-copy functions, CRDs and reference pages from the code, and the chart's page and schema
	hack/generate.sh

.PHONY: fmt
fmt: ## Format the code and sort its imports
	$(GOLANGCI_LINT) fmt

##@ Check

# The race detector makes a hub several times slower. "make test" has it where it pays: in the packages of shipped code
# whose tests need no control plane, in those about concurrency that do (RACED), and for the numbered statements about
# ManagedResources (RACED_TESTS of STATEMENTS). "make test-long" has it everywhere.
RACED       := ./clustercache ./controllers/internal/multicluster
RACED_TESTS := ^Test(MR|X)[0-9]
STATEMENTS  := ./controllers/managedresource

# Tests that need control planes wait most of the time, so more packages are tested at once than there are processors.
PACKAGES_AT_ONCE ?= 2

# Runs share most of a ManagedResource with the informers, so a change to it fails the test. "make lint" runs go vet.
TEST = KUBE_CACHE_MUTATION_DETECTOR=true $(GO) test -vet=off -p $(PACKAGES_AT_ONCE) -timeout $(TEST_TIMEOUT)

# Both parts at once: while all tests of one wait, the other works.
.PHONY: test
test: kube ## Run all tests on real API servers, with the race detector where it pays. ARGS="-run X -v" is passed on
	@$(MAKE) --no-print-directory -j2 test-race test-plain
	$(GO) -C hack/kube test -vet=off ./...
	$(GO) -C hack/perf test -vet=off -short $(ARGS) ./...

.PHONY: test-race
test-race: kube ## Run only the part of "make test" that has the race detector
	packages="$$(hack/packages.sh raced)" && $(TEST) -race $(ARGS) $(RACED) $$packages
	$(TEST) -race -run '$(RACED_TESTS)' $(ARGS) $(STATEMENTS)

.PHONY: test-plain
test-plain: kube ## Run only the part of "make test" that has not: packages that need control planes, but for RACED_TESTS; the tools in hack
	packages="$$(hack/packages.sh plain $(RACED) $(STATEMENTS))"; \
		$(TEST) -skip '$(RACED_TESTS)' $(ARGS) $(STATEMENTS); statements=$$?; \
		$(TEST) $(ARGS) $$packages && exit $$statements
	$(GO) test -vet=off -run TestStacksOfWatches ./clustercache # the race detector makes stacks larger

.PHONY: test-long
test-long: kube ## Run all tests with the race detector, those of sizes that take minutes, and all trials quickly: before a release
	KUBE_CACHE_MUTATION_DETECTOR=true $(GO) test -race -tags long -p 2 -timeout 60m $(ARGS) ./...
	$(GO) test -vet=off -tags long -run TestStacksOfWatches ./clustercache # the race detector makes stacks larger
	# What is measured are hubs in processes of their own. The race detector would only slow down what plays their targets.
	$(GO) -C hack/perf test -p 1 -timeout $(TEST_TIMEOUT) $(ARGS) ./...

.PHONY: unit
unit: ## Run only the tests that need no control plane
	$(GO) test -race -short $(ARGS) ./...
	$(GO) -C hack/perf test -short $(ARGS) ./...

.PHONY: e2e
e2e: kube ## Run only the end-to-end tests
	$(GO) test -timeout $(TEST_TIMEOUT) -v $(ARGS) ./e2e/...

.PHONY: e2e-grm
e2e-grm: kube grm ## Run the hub and a real Gardener resource manager on the same ManagedResources, in turns and at once
	TRELLIS_E2E_GRM=$(abspath $(GRM)) $(GO) test -timeout $(TEST_TIMEOUT) -v -tags grm -run TestGRM $(ARGS) ./e2e

.PHONY: e2e-chart
e2e-chart: kube ## Render the chart, install, upgrade and uninstall it with Helm on a real control plane, with a hub at work
	$(GO) test -count=1 -timeout $(TEST_TIMEOUT) -v $(ARGS) ./charts/... ./e2e/chart

.PHONY: test-monitoring
test-monitoring: ## Hold the dashboards, rules and inhibition of the chart against the code of Prometheus and Alertmanager
	CGO_ENABLED=0 $(GO) -C hack/monitoring test -count=1 $(ARGS) ./...

.PHONY: e2e-observability
e2e-observability: kube monitoring ## Provoke the alerts of the chart in a real Prometheus, see them end, and see every panel with data
	TRELLIS_MONITORING=$(abspath $(MONITORING_DIR)) $(GO) test -count=1 -timeout 60m -v -tags observability $(ARGS) ./e2e/observability

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (default 10s), one after the other
	GO=$(GO) hack/fuzz.sh $(or $(FUZZTIME),10s)

.PHONY: isolation
isolation: kube ## Run N pairs of random programs alone and interleaved: what is done in a target follows from it and its home namespace. SEED=s is the first
	$(GO) test -count=1 -timeout 0 -v ./hack/isolation -run TestMC7 \
		-args -isolation.programs=$(or $(N),50) -isolation.steps=$(or $(STEPS),30) -isolation.seed=$(or $(SEED),1000)

.PHONY: histories
histories: kube ## Take N random steps against real API servers, with crashes at any call: never a wrong delete. SEED=s repeats
	$(GO) test -count=1 -timeout 0 -v ./hack/histories -run TestNeverAWrongDelete \
		-args -history.steps=$(or $(N),100000) -history.seed=$(or $(SEED),0) -history.out=$(or $(OUT),$(CURDIR)/bin/histories)

.PHONY: differential
differential: kube ## Compare what the engine makes of objects with what updates make of them, N (default 5000) manifests. SEED=s repeats
	$(GO) test -count=1 -timeout 0 -v ./hack/differential \
		-args -differential.transitions=$(or $(N),5000) -differential.seed=$(or $(SEED),0)

.PHONY: licences
licences: ## Fail if what is shipped has a licence that it must not have, and write the texts and a bill of materials to bin/licences
	@$(GO) -C hack/licences build -o $(CURDIR)/bin/tools/licences .
	@GO=$(GO) VERSION=$$(hack/stamp.sh version) DATE=$$(hack/stamp.sh date) bin/tools/licences \
		-texts bin/licences/LICENCES -sbom bin/licences/sbom.spdx.json ./cmd/...

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities. If their database cannot be read it says so, and fails only with STRICT=1
	@GO=$(GO) hack/vulncheck/run.sh $(if $(STRICT),,--if-reachable)

.PHONY: test-supply
test-supply: ## Run the tests of what checks licences, assembles the image, and publishes it to a registry on loopback
	$(GO) -C hack/licences test ./...
	$(GO) -C hack/image test ./...

.PHONY: lint
lint: ## Check style, layering, and that generated files are up to date
	$(GOLANGCI_LINT) run
	$(GO) -C hack/perf tool -modfile=../tools/golangci-lint/go.mod golangci-lint run
	for module in kube image licences; do $(GO) -C hack/$$module vet ./... || exit; done
	hack/generate.sh --check

##@ Set up

.PHONY: kube
kube: ## Build etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and kwok into bin/kube/, once
	@GOFLAGS='$(filter-out -trimpath,$(GOFLAGS))' $(GO) -C hack/kube run . -o ../../bin/kube # others' code, always in the same place

.PHONY: grm
grm: $(GRM) ## Build the Gardener resource manager that "make e2e-grm" needs into bin/grm/, once

$(GRM): hack/grm/go.mod hack/grm/go.sum
	@echo "building $(@F), which takes a few minutes"
	@mkdir -p $(@D)
	@examples="$$($(GO) -C hack/grm mod download -json $(GRM_MODULE) | awk -F'"' '$$2 == "Dir" {print $$4}')/example/resource-manager" && \
		cp -f "$$examples/10-crd-resources.gardener.cloud_managedresources.yaml" $(@D)/crd.yaml && \
		cp -f "$$examples/10-componentconfig.yaml" $(@D)/example.yaml
	@CGO_ENABLED=0 GOWORK=off $(GO) -C hack/grm build -ldflags "-s -w" -o $(abspath $@) $(GRM_MODULE)/cmd/$(@F)
	@touch $@

.PHONY: monitoring
monitoring: ## Put Prometheus and Alertmanager into bin/monitoring/, once: installed ones, those of Debian's packages, or built
	@GO=$(GO) hack/monitoring/install.sh $(MONITORING_DIR)

.PHONY: clean
clean: ## Remove everything that was built
	rm -rf bin

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
