# What a developer runs here. "make" alone lists it.

GO            ?= go
GOLANGCI_LINT := $(GO) tool -modfile=hack/tools/golangci-lint/go.mod golangci-lint
TEST_TIMEOUT  ?= 20m

.DEFAULT_GOAL := help

##@ Try

.PHONY: demo
demo: kube ## Watch one hub keep several clusters in order. ONCE=1: end by itself, and fail if anything shown is not true
	$(GO) run ./hack/demo $(if $(ONCE),--once)

.PHONY: bench
bench: kube ## Measure drift latency and objects applied per second on real control planes
	$(GO) run ./hack/bench $(ARGS)

##@ Develop

.PHONY: build
build: ## Build the commands into bin/
	$(GO) build -trimpath -o bin/ ./cmd/...

.PHONY: generate
generate: ## Generate deep-copy functions and CRDs from the types in apis/
	hack/generate.sh

.PHONY: fmt
fmt: ## Format the code and sort its imports
	$(GOLANGCI_LINT) fmt

##@ Check

.PHONY: test
test: kube ## Run all tests, with race detector and on real API servers. ARGS="-run X -v" is passed on
	$(GO) -C hack/kube test ./...
	$(GO) test -race -timeout $(TEST_TIMEOUT) $(ARGS) ./...

.PHONY: unit
unit: ## Run only the tests that need no control plane
	$(GO) test -race -short $(ARGS) ./...

.PHONY: e2e
e2e: kube ## Run only the end-to-end tests
	$(GO) test -race -timeout $(TEST_TIMEOUT) -v $(ARGS) ./e2e/...

.PHONY: lint
lint: ## Check style, layering, and that generated files are up to date
	$(GOLANGCI_LINT) run
	$(GO) -C hack/kube vet ./...
	hack/generate.sh --check

##@ Set up

.PHONY: kube
kube: ## Build etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok into bin/kube/, once
	@$(GO) -C hack/kube run . -o ../../bin/kube

.PHONY: clean
clean: ## Remove everything that was built
	rm -rf bin

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
