# Everything a contributor needs; `make help` lists it. Tools are built from pinned modules,
# nothing has to be installed by hand beyond Go, make, git and gcc (for the race detector).
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

BIN := bin
# ocb and mdatagen come from internal/tools/go.mod. golangci-lint has far too many
# dependencies to share a go.mod with anything; it is built once per version and machine.
GOLANGCI_LINT_VERSION := v2.15.0
TOOL_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/otelcol-gpu/tools
GOLANGCI_LINT := $(TOOL_CACHE)/golangci-lint-$(GOLANGCI_LINT_VERSION)-$(shell go env GOVERSION)/golangci-lint
# A real Prometheus for `make examples`, built once as well; the version is in its go.mod.
PROMETHEUS_VERSION := $(shell sed -n 's/^.*prometheus\/prometheus \(v[^ ]*\).*/\1/p' internal/tools/prometheus/go.mod)
PROMETHEUS := $(TOOL_CACHE)/prometheus-$(PROMETHEUS_VERSION)-$(shell go env GOVERSION)/prometheus
# A real Kubernetes control plane for the packages' tests, likewise.
KUBERNETES_VERSION := $(shell sed -n 's/^.*k8s.io\/kubernetes \(v[^ ]*\).*/\1/p' test/controlplane/go.mod)
CONTROLPLANE := $(TOOL_CACHE)/kubernetes-$(KUBERNETES_VERSION)-$(shell go env GOVERSION)
CONTROLPLANE_BINARIES := $(addprefix $(CONTROLPLANE)/,etcd kube-apiserver kube-scheduler)

# builder-config.yaml is the one place for the version and the build tags.
TAGS := $(shell sed -n 's/^  build_tags: *//p' builder-config.yaml)
# Reproducible: no paths, no VCS state, no symbols; a VCS that git refuses to read cannot fail it.
GO_BUILD := CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags "$(TAGS)" -ldflags "-s -w"
TEST_TIMEOUT ?= 30m
# One fuzz target's share of `make fuzz`; the runs of each benchmark, of which `bench` takes the
# median, and a pattern that narrows them by name.
FUZZTIME ?= 10s
BENCH_COUNT ?= 3
BENCH ?= .

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/otelcol-gpu and the other commands
	@mkdir -p $(BIN)
	$(GO_BUILD) -o $(BIN)/ ./cmd/...

.PHONY: run
run: build ## Simulated GPUs through the collector: one line per device and window, Ctrl-C ends it
	@exec examples/quickstart.sh

.PHONY: test
test: unit examples ## Run every test: packages under the race detector, then the examples as processes

.PHONY: unit
unit: $(CONTROLPLANE_BINARIES) ## Run the packages' tests under the race detector, some against a real control plane
	OTELCOL_GPU_CONTROLPLANE="$(CONTROLPLANE)" go test -race -timeout $(TEST_TIMEOUT) -tags "$(TAGS)" ./...

# Scrapes and agents run by the clock, so they get a number of scrapes; the rest gets a second.
COMPARISON := ./receiver/dcgmreceiver/internal/comparison
BENCHMARK = go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCH_COUNT) -timeout $(TEST_TIMEOUT) -tags "$(TAGS)"
.PHONY: bench
bench: build ## Run the benchmarks, peers beside them, and print the ratios; BENCH narrows them by name
	@{ $(BENCHMARK) -benchtime 40x -skip '^Benchmark(Agent|Parser|ScrapeMany)$$' $(COMPARISON); \
		OTELCOL_GPU_BIN="$(abspath $(BIN))" $(BENCHMARK) -benchtime 24x -skip '^Benchmark(Scrape|ScrapeMany|Parser)$$' $(COMPARISON); \
		$(BENCHMARK) -skip '^Benchmark(Agent|Scrape)$$' $(COMPARISON); \
		$(BENCHMARK) $$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -r -n1 dirname | sort -u | grep -vx '$(COMPARISON)'); \
	} | go run ./internal/benchtable

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (10s)
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func /:/' | sort | while IFS=: read -r file name; do \
		echo "fuzz $$(dirname "$$file") $$name for $(FUZZTIME)"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -tags "$(TAGS)" "$$(dirname "$$file")" </dev/null; \
	done

.PHONY: examples
examples: build $(PROMETHEUS) $(CONTROLPLANE_BINARIES) ## Validate every file under examples/ and run each for some seconds
	OTELCOL_GPU_BIN="$(CURDIR)/$(BIN)" OTELCOL_GPU_PROMETHEUS="$(PROMETHEUS)" OTELCOL_GPU_CONTROLPLANE="$(CONTROLPLANE)" \
		go test -count=1 -v -timeout 15m -tags "$(TAGS)" ./internal/examplestest ./internal/manifeststest

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Run golangci-lint; LINT_FLAGS=--fix repairs what it can
	$(GOLANGCI_LINT) run $(LINT_FLAGS) ./...

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## Format the Go code
	$(GOLANGCI_LINT) fmt ./...

.PHONY: generate
generate: $(BIN)/ocb $(BIN)/mdatagen ## Regenerate cmd/otelcol-gpu, component metadata and docs
	$(BIN)/ocb --skip-get-modules --skip-compilation --config builder-config.yaml
	PATH="$(CURDIR)/$(BIN):$$PATH" go generate ./...

.PHONY: check-generate
check-generate: ## Fail when `make generate` would change a file
	@.ci/unchanged-by $(MAKE) --no-print-directory generate

.PHONY: check-tidy
check-tidy: ## Fail when any go.mod or go.sum of this repository is not tidy
	go mod tidy -diff
	go -C internal/tools mod tidy -diff
	go -C internal/tools/prometheus mod tidy -diff
	go -C test/controlplane mod tidy -diff

.PHONY: ocb-classic
ocb-classic: build $(BIN)/ocb ## Build the manifest as a module of its own, outside this checkout
	@.ci/ocb-classic $(CURDIR)/$(BIN)/ocb $(CURDIR)/$(BIN)/otelcol-gpu

.PHONY: clean
clean: ## Remove what was built; the tool cache stays
	rm -rf $(BIN)

$(BIN)/ocb: internal/tools/go.mod internal/tools/go.sum
	go -C internal/tools build -trimpath -buildvcs=false -o $(CURDIR)/$@ go.opentelemetry.io/collector/cmd/builder

$(BIN)/mdatagen: internal/tools/go.mod internal/tools/go.sum
	go -C internal/tools build -trimpath -buildvcs=false -o $(CURDIR)/$@ go.opentelemetry.io/collector/cmd/mdatagen

# GOFLAGS of the caller are meant for this module, not for a tool's.
$(GOLANGCI_LINT):
	GOFLAGS= GOBIN=$(@D) CGO_ENABLED=0 go install -trimpath -ldflags "-s -w" github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)

$(PROMETHEUS):
	CGO_ENABLED=0 go -C internal/tools/prometheus build -trimpath -buildvcs=false -tags remove_all_sd -ldflags "-s -w" \
		-o $@ github.com/prometheus/prometheus/cmd/prometheus

# The version is what the API server and the scheduler say of themselves.
$(CONTROLPLANE)/kube-%:
	CGO_ENABLED=0 go -C test/controlplane build -trimpath -buildvcs=false \
		-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$(KUBERNETES_VERSION)" -o $@ k8s.io/kubernetes/cmd/kube-$*

$(CONTROLPLANE)/etcd:
	CGO_ENABLED=0 go -C test/controlplane build -trimpath -buildvcs=false -ldflags "-s -w" -o $@ go.etcd.io/etcd/server/v3
