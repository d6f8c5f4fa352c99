# Development targets; `make help` lists them. Tools are built from pinned modules. Only Go, make,
# git, and gcc (for the race detector) have to be installed.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

BIN := bin
# ocb and mdatagen are built from internal/tools/go.mod. golangci-lint has too many dependencies to
# share a go.mod, so it is built once per version and machine.
GOLANGCI_LINT_VERSION := v2.15.0
TOOL_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/otelcol-gpu/tools
GOLANGCI_LINT := $(TOOL_CACHE)/golangci-lint-$(GOLANGCI_LINT_VERSION)-$(shell go env GOVERSION)/golangci-lint
GOVULNCHECK_VERSION := v1.8.0
GOVULNCHECK := $(TOOL_CACHE)/govulncheck-$(GOVULNCHECK_VERSION)-$(shell go env GOVERSION)/govulncheck
CRANE_VERSION := v0.22.1
CRANE := $(TOOL_CACHE)/crane-$(CRANE_VERSION)-$(shell go env GOVERSION)/crane
ACTIONLINT_VERSION := v1.7.12
ACTIONLINT := $(TOOL_CACHE)/actionlint-$(ACTIONLINT_VERSION)-$(shell go env GOVERSION)/actionlint
# `make examples` uses a real Prometheus, which is also built once per version. Its go.mod defines
# the version.
PROMETHEUS_VERSION := $(shell sed -n 's/^.*prometheus\/prometheus \(v[^ ]*\).*/\1/p' internal/tools/prometheus/go.mod)
PROMETHEUS := $(TOOL_CACHE)/prometheus-$(PROMETHEUS_VERSION)-$(shell go env GOVERSION)/prometheus
PROMTOOL := $(dir $(PROMETHEUS))promtool
# The integration tests use a real Kubernetes control plane, which is also built once per version.
KUBERNETES_VERSION := $(shell sed -n 's/^.*k8s.io\/kubernetes \(v[^ ]*\).*/\1/p' test/controlplane/go.mod)
CONTROLPLANE := $(TOOL_CACHE)/kubernetes-$(KUBERNETES_VERSION)-$(shell go env GOVERSION)
CONTROLPLANE_BINARIES := $(addprefix $(CONTROLPLANE)/,etcd kube-apiserver kube-scheduler)

# builder-config.yaml defines the version and the build tags.
TAGS := $(shell sed -n 's/^  build_tags: *//p' builder-config.yaml)
# A release uses the distribution's version.
VERSION := $(shell sed -n 's/^  version: *//p' builder-config.yaml)
# The output directory of releases, and the name of the image.
DIST := dist
IMAGE ?= otelcol-gpu
# NVML needs glibc. Without it, the program is static.
STATIC_TAGS := $(TAGS) otelcol_gpu_no_nvml
# Helm renders and lints the chart in tests.
HELM_VERSION := $(shell sed -n 's/^.*helm.sh\/helm\/v4 \(v[^ ]*\).*/\1/p' test/helm/go.mod)
HELM := $(TOOL_CACHE)/helm-$(HELM_VERSION)-$(shell go env GOVERSION)/helm
# nfpm builds the Debian and RPM packages.
NFPM_VERSION := $(shell sed -n 's/^.*goreleaser\/nfpm\/v2 \(v[^ ]*\).*/\1/p' internal/tools/nfpm/go.mod)
NFPM := $(TOOL_CACHE)/nfpm-$(NFPM_VERSION)-$(shell go env GOVERSION)/nfpm
# Builds are reproducible. They contain neither paths nor VCS state, so problems with git cannot
# make them fail. They omit debug information, which saves a sixth of the build time. All builds use
# the same flags, so they share the build cache.
GO_FLAGS := -trimpath -buildvcs=false -gcflags=all=-dwarf=false
GO_BUILD := CGO_ENABLED=0 go build $(GO_FLAGS) -tags "$(TAGS)" -ldflags "-s -w"
TEST_TIMEOUT ?= 30m
# FUZZTIME is the time per fuzz target in `make fuzz`. BENCH_COUNT is the number of runs per
# benchmark; `make bench` reports their median. BENCH selects benchmarks by name.
FUZZTIME ?= 5s
BENCH_COUNT ?= 3
BENCH ?= .

# The paths of the programs that the tests of `make check` start.
SERVERS := OTELCOL_GPU_BIN="$(CURDIR)/$(BIN)" OTELCOL_GPU_STATIC="$(CURDIR)/$(BIN)/static/otelcol-gpu" \
	OTELCOL_GPU_PROMETHEUS="$(PROMETHEUS)" OTELCOL_GPU_PROMTOOL="$(PROMTOOL)" \
	OTELCOL_GPU_CONTROLPLANE="$(CONTROLPLANE)" OTELCOL_GPU_HELM="$(HELM)" OTELCOL_GPU_NFPM="$(NFPM)"

.PHONY: help
help: ## List the targets and when to run them
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  a first look                    make run"
	@echo "  after each change               make test"
	@echo "  before you open a pull request  make lint generate test-integration"
	@echo "  all steps of CI                 .ci/run"

.PHONY: build
build: ## Build bin/otelcol-gpu and the other commands
	@mkdir -p $(BIN)
	$(GO_BUILD) -o $(BIN)/ ./cmd/...

# `make run` uses the agent form, which compiles in two thirds of the time of the full distribution.
.PHONY: agent
agent:
	@mkdir -p $(BIN)
	$(GO_BUILD) -o $(BIN)/ ./cmd/otelcol-gpu-agent ./cmd/dcgmsim ./cmd/gpudoctor

.PHONY: run
run: agent ## Run the collector with simulated nodes of three vendors: a live page and a table in the terminal; Ctrl-C stops it
	@exec examples/quickstart.sh

# The programs for `make test`. The agent and gpudoctor are built with the race detector. The tests
# are also compiled with it, so these builds share most of their packages with the tests.
RACE := $(BIN)/race
.PHONY: agent-race
agent-race:
	@mkdir -p $(RACE)
	$(GO_BUILD) -o $(RACE)/ ./cmd/dcgmsim
	CGO_ENABLED=1 go build $(GO_FLAGS) -race -tags "$(TAGS)" -ldflags "-s -w" -o $(RACE)/ ./cmd/otelcol-gpu-agent ./cmd/gpudoctor

.PHONY: test
test: agent-race ## Run the quick tests: every package's own, the components together, the built collector once, the page in a browser
	OTELCOL_GPU_BIN="$(CURDIR)/$(RACE)" .ci/test quick "$(TAGS)"

.PHONY: check
check: test-long test-integration fuzz ## Run all other tests: long properties, control plane, Prometheus, Helm, examples, faults, a few seconds of fuzzing

.PHONY: test-long
test-long: ## Run the property tests with all their cases
	.ci/test long "$(TAGS)"

.PHONY: test-integration
test-integration: build static $(PROMETHEUS) $(PROMTOOL) $(CONTROLPLANE_BINARIES) $(HELM) $(NFPM) ## Run the tests that start servers, below test/
	$(SERVERS) .ci/test integration "$(TAGS)"

.PHONY: update-charts
update-charts: build $(HELM) ## Update the golden manifests and the schema of the Helm chart
	$(SERVERS) go test ./test/charts -run "TestTheChartRenders|TestTheChartHasTheRules|TestTheSchemaContains" -update

# These tests install packages into a root directory and run processes with a different root.
.PHONY: test-root
test-root: build static $(HELM) $(NFPM) ## Run the integration tests that need root
	$(SERVERS) go test -count=1 -timeout $(TEST_TIMEOUT) -tags "$(TAGS)" ./test/packages ./test/charts

# BenchmarkScrape and BenchmarkAgent run at a fixed interval, so -benchtime sets their number of
# scrapes. The other benchmarks run for one second.
COMPARISON := ./test/bench
BENCHMARK = go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCH_COUNT) -timeout $(TEST_TIMEOUT) -tags "$(TAGS)"
.PHONY: bench
bench: build ## Run the benchmarks with their peers and print the ratios; BENCH selects them by name
	@{ $(BENCHMARK) -benchtime 40x -skip '^Benchmark(Agent|Parser|ScrapeMany)$$' $(COMPARISON); \
		OTELCOL_GPU_BIN="$(abspath $(BIN))" $(BENCHMARK) -benchtime 24x -skip '^Benchmark(Scrape|ScrapeMany|Parser)$$' $(COMPARISON); \
		$(BENCHMARK) -skip '^Benchmark(Agent|Scrape)$$' $(COMPARISON); \
		$(BENCHMARK) $$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -r -n1 dirname | sort -u | grep -vx '$(COMPARISON)'); \
	} | go run ./test/bench/table

# SCALES lists numbers of scraped nodes, or 1-held or 100k-instances. FLEET lists fleet sizes in
# nodes; the requests of their agents are replayed to gateways. CGROUP is the directory of a memory
# cgroup in which child cgroups can be created. Without it, the memory that the kernel charges is
# not measured.
SCALES ?= 1,10,100,1000
FLEET ?=
CGROUP ?=
.PHONY: bench-compare
bench-compare: build $(PROMETHEUS) ## Compare the agent with the prometheus receiver and a real Prometheus and update test/benchcompare/RESULTS.md; SCALES=1,10 selects sizes, FLEET=1000,10000 measures gateways
	go run -tags "$(TAGS)" ./test/benchcompare -collector $(BIN)/otelcol-gpu -agent $(BIN)/otelcol-gpu-agent -prometheus "$(PROMETHEUS)" -scales $(SCALES) \
		-fleet "$(FLEET)" -cgroup "$(CGROUP)" -results test/benchcompare

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (5s)
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func /:/' | sort | while IFS=: read -r file name; do \
		.ci/fuzz "$$(dirname "$$file")" "$$name" "$(FUZZTIME)" "$(TAGS)" </dev/null; \
	done

.PHONY: examples
examples: build $(PROMETHEUS) $(CONTROLPLANE_BINARIES) ## Validate every file under examples/ and run each for a few seconds
	$(SERVERS) go test -count=1 -v -timeout 15m -tags "$(TAGS)" ./test/examples ./test/manifests

.PHONY: faults
faults: build $(CONTROLPLANE_BINARIES) ## Run the long form of the fault tests and write their table into test/faults/RESULTS.md
	OTELCOL_GPU_BIN="$(CURDIR)/$(BIN)" OTELCOL_GPU_CONTROLPLANE="$(CONTROLPLANE)" OTELCOL_GPU_FAULTS_LONG=1 \
		go test -count=1 -timeout 15m -tags "$(TAGS)" ./test/faults -update

.PHONY: soak
soak: build ## Run the soak test: 100,000 scrapes with churn in a few minutes; memory, goroutines and files must stay constant
	OTELCOL_GPU_BIN="$(CURDIR)/$(BIN)" OTELCOL_GPU_SOAK=1 go test -count=1 -v -run Soak -timeout 30m -tags "$(TAGS)" ./test/faults

.PHONY: lint
lint: $(GOLANGCI_LINT) $(ACTIONLINT) ## Run golangci-lint, and actionlint over the workflows; LINT_FLAGS=--fix repairs what it can
	$(ACTIONLINT)
	CGO_ENABLED=0 GOFLAGS="$(GO_FLAGS)" $(GOLANGCI_LINT) run $(LINT_FLAGS) ./...

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## Format the Go code
	$(GOLANGCI_LINT) fmt ./...

.PHONY: generate
generate: $(BIN)/ocb $(BIN)/mdatagen ## Regenerate cmd/otelcol-gpu and its agent form, component metadata and docs
	$(BIN)/ocb --skip-get-modules --skip-compilation --config builder-config.yaml
	$(BIN)/ocb --skip-get-modules --skip-compilation --config builder-config-agent.yaml
	gofmt -w cmd/otelcol-gpu cmd/otelcol-gpu-agent
	PATH="$(CURDIR)/$(BIN):$$PATH" go generate ./...

.PHONY: check-generate
check-generate: ## Fail if `make generate` would change a file
	@.ci/unchanged-by $(MAKE) --no-print-directory generate

.PHONY: check-tidy
check-tidy: ## Fail if a go.mod or go.sum of this repository is not tidy
	go mod tidy -diff
	go -C internal/tools mod tidy -diff
	go -C internal/tools/prometheus mod tidy -diff
	go -C test/controlplane mod tidy -diff
	go -C test/helm mod tidy -diff
	go -C internal/tools/sbom mod tidy -diff
	go -C internal/tools/nfpm mod tidy -diff

.PHONY: vulncheck
vulncheck: $(GOVULNCHECK) ## Fail if the commands call code with known vulnerabilities; only warns if the database cannot be reached
	@.ci/govulncheck $(GOVULNCHECK) "$(TAGS)"

.PHONY: ocb-classic
ocb-classic: build $(BIN)/ocb ## Build the manifest as a separate module outside this checkout
	@.ci/ocb-classic $(CURDIR)/$(BIN)/ocb $(CURDIR)/$(BIN)/otelcol-gpu

.PHONY: static
static: ## Build bin/static/otelcol-gpu, the static collector without NVML
	@mkdir -p $(BIN)/static
	$(GO_BUILD) -tags "$(STATIC_TAGS)" -o $(BIN)/static/ ./cmd/otelcol-gpu

# The files in a release get the timestamp of the commit.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || date +%s)
# RELEASE_ARCHS=amd64 is enough for a trial build.
RELEASE_ARCHS ?= amd64 arm64
RELEASE_BUILD = GOOS=linux GOARCH=$$arch $(GO_BUILD)
.PHONY: release
release: $(BIN)/cyclonedx-gomod $(HELM) $(NFPM) ## Build programs and packages for amd64 and arm64, SBOMs, chart, source and checksums in dist/
	rm -rf $(DIST)
	@mkdir -p $(DIST)
	@for arch in $(RELEASE_ARCHS); do \
		suffix=$(VERSION)_linux_$$arch; \
		$(RELEASE_BUILD) -tags "$(STATIC_TAGS)" -o $(DIST)/otelcol-gpu_$$suffix ./cmd/otelcol-gpu; \
		$(RELEASE_BUILD) -o $(DIST)/otelcol-gpu_$${suffix}_nvml ./cmd/otelcol-gpu; \
		$(RELEASE_BUILD) -o $(DIST)/gpudoctor_$$suffix ./cmd/gpudoctor; \
		for program in $(DIST)/*_$$suffix $(DIST)/*_$${suffix}_nvml; do \
			echo "$$program"; \
			$(BIN)/cyclonedx-gomod bin -json -noserial -notimestamp -version v$(VERSION) -output $$program.cdx.json $$program; \
		done; \
		packaging/build.sh "$(NFPM)" $$arch $(VERSION) $(DIST)/otelcol-gpu_$${suffix}_nvml $(DIST)/gpudoctor_$$suffix $(DIST); \
	done
	$(HELM) package charts/otelcol-gpu --destination $(DIST)
	packaging/source.sh $(VERSION) $(DIST)
	cd $(DIST) && sha256sum * >SHA256SUMS

.PHONY: image
image: ## Build the image $(IMAGE) for amd64 and arm64, both forms; needs docker buildx, IMAGE_FLAGS=--push publishes
	@mkdir -p $(DIST)
	for form in static nvml; do \
		tag=$(IMAGE):$(VERSION); if [[ $$form == nvml ]]; then tag+=-nvml; fi; \
		docker buildx build --platform linux/amd64,linux/arm64 --tag "$$tag" --build-arg FORM=$$form \
			--build-arg VERSION=$(VERSION) --build-arg REVISION="$$(git rev-parse HEAD)" \
			--build-arg CREATED="$$(git log -1 --format=%cI)" --metadata-file $(DIST)/image-$$form.json $(IMAGE_FLAGS) .; \
	done

.PHONY: pin-images
pin-images: $(CRANE) ## Write the current digests of the base images into the Dockerfile
	.ci/pin-images $(CRANE)

.PHONY: clean
clean: ## Remove build outputs, but not the tool cache
	rm -rf $(BIN) $(DIST)

$(BIN)/ocb: internal/tools/go.mod internal/tools/go.sum
	CGO_ENABLED=0 go -C internal/tools build $(GO_FLAGS) -o $(CURDIR)/$@ go.opentelemetry.io/collector/cmd/builder

$(BIN)/mdatagen: internal/tools/go.mod internal/tools/go.sum
	CGO_ENABLED=0 go -C internal/tools build $(GO_FLAGS) -o $(CURDIR)/$@ go.opentelemetry.io/collector/cmd/mdatagen

# The caller's GOFLAGS apply to this module and not to the tools.
$(GOLANGCI_LINT):
	GOFLAGS= GOBIN=$(@D) CGO_ENABLED=0 go install -trimpath -gcflags=all=-dwarf=false -ldflags "-s -w" github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)

$(GOVULNCHECK):
	GOFLAGS= GOBIN=$(@D) CGO_ENABLED=0 go install -trimpath -gcflags=all=-dwarf=false -ldflags "-s -w" golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)

$(PROMETHEUS) $(PROMTOOL):
	CGO_ENABLED=0 go -C internal/tools/prometheus build $(GO_FLAGS) -tags remove_all_sd -ldflags "-s -w" \
		-o $@ github.com/prometheus/prometheus/cmd/$(@F)

# The API server and the scheduler report this version.
$(CONTROLPLANE)/kube-%:
	CGO_ENABLED=0 go -C test/controlplane build $(GO_FLAGS) \
		-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$(KUBERNETES_VERSION)" -o $@ k8s.io/kubernetes/cmd/kube-$*

$(CONTROLPLANE)/etcd:
	CGO_ENABLED=0 go -C test/controlplane build $(GO_FLAGS) -ldflags "-s -w" -o $@ go.etcd.io/etcd/server/v3

$(ACTIONLINT):
	GOFLAGS= GOBIN=$(@D) CGO_ENABLED=0 go install -trimpath -gcflags=all=-dwarf=false -ldflags "-s -w" github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)

$(CRANE):
	GOFLAGS= GOBIN=$(@D) CGO_ENABLED=0 go install -trimpath -gcflags=all=-dwarf=false -ldflags "-s -w" github.com/google/go-containerregistry/cmd/crane@$(CRANE_VERSION)

$(BIN)/cyclonedx-gomod: internal/tools/sbom/go.mod internal/tools/sbom/go.sum
	CGO_ENABLED=0 go -C internal/tools/sbom build $(GO_FLAGS) -o $(CURDIR)/$@ github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

$(HELM):
	CGO_ENABLED=0 go -C test/helm build $(GO_FLAGS) -ldflags "-s -w" -o $@ helm.sh/helm/v4/cmd/helm

$(NFPM):
	CGO_ENABLED=0 go -C internal/tools/nfpm build $(GO_FLAGS) -ldflags "-s -w" -o $@ github.com/goreleaser/nfpm/v2/cmd/nfpm
