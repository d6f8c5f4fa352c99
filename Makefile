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
GOVULNCHECK_VERSION := v1.8.0
GOVULNCHECK := $(TOOL_CACHE)/govulncheck-$(GOVULNCHECK_VERSION)-$(shell go env GOVERSION)/govulncheck
CRANE_VERSION := v0.22.1
CRANE := $(TOOL_CACHE)/crane-$(CRANE_VERSION)-$(shell go env GOVERSION)/crane
ACTIONLINT_VERSION := v1.7.12
ACTIONLINT := $(TOOL_CACHE)/actionlint-$(ACTIONLINT_VERSION)-$(shell go env GOVERSION)/actionlint
# A real Prometheus for `make examples`, built once as well; the version is in its go.mod.
PROMETHEUS_VERSION := $(shell sed -n 's/^.*prometheus\/prometheus \(v[^ ]*\).*/\1/p' internal/tools/prometheus/go.mod)
PROMETHEUS := $(TOOL_CACHE)/prometheus-$(PROMETHEUS_VERSION)-$(shell go env GOVERSION)/prometheus
PROMTOOL := $(dir $(PROMETHEUS))promtool
# A real Kubernetes control plane for the packages' tests, likewise.
KUBERNETES_VERSION := $(shell sed -n 's/^.*k8s.io\/kubernetes \(v[^ ]*\).*/\1/p' test/controlplane/go.mod)
CONTROLPLANE := $(TOOL_CACHE)/kubernetes-$(KUBERNETES_VERSION)-$(shell go env GOVERSION)
CONTROLPLANE_BINARIES := $(addprefix $(CONTROLPLANE)/,etcd kube-apiserver kube-scheduler)

# builder-config.yaml is the one place for the version and the build tags.
TAGS := $(shell sed -n 's/^  build_tags: *//p' builder-config.yaml)
# Of the release: the version is that of the distribution.
VERSION := $(shell sed -n 's/^  version: *//p' builder-config.yaml)
# What releases write, and the name of the image.
DIST := dist
IMAGE ?= otelcol-gpu
# Without NVML, which takes glibc: one program that needs no other file.
STATIC_TAGS := $(TAGS) otelcol_gpu_no_nvml
# Renders and lints the chart in tests.
HELM_VERSION := $(shell sed -n 's/^.*helm.sh\/helm\/v4 \(v[^ ]*\).*/\1/p' test/helm/go.mod)
HELM := $(TOOL_CACHE)/helm-$(HELM_VERSION)-$(shell go env GOVERSION)/helm
# Makes the Debian and RPM packages.
NFPM_VERSION := $(shell sed -n 's/^.*goreleaser\/nfpm\/v2 \(v[^ ]*\).*/\1/p' internal/tools/nfpm/go.mod)
NFPM := $(TOOL_CACHE)/nfpm-$(NFPM_VERSION)-$(shell go env GOVERSION)/nfpm
# Reproducible: no paths, no VCS state; a VCS that git refuses to read cannot fail it. What a
# debugger would need is not compiled, which saves a sixth of the time. All that compiles has
# these flags: compilations are shared.
GO_FLAGS := -trimpath -buildvcs=false -gcflags=all=-dwarf=false
GO_BUILD := CGO_ENABLED=0 go build $(GO_FLAGS) -tags "$(TAGS)" -ldflags "-s -w"
TEST_TIMEOUT ?= 30m
# One fuzz target's share of `make fuzz`; the runs of each benchmark, of which `bench` takes the
# median, and a pattern that narrows them by name.
FUZZTIME ?= 5s
BENCH_COUNT ?= 3
BENCH ?= .

# What the tests of `make check` are told of the programs that they start.
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

# What `make run` needs: the agent form compiles in two thirds of the time.
.PHONY: agent
agent:
	@mkdir -p $(BIN)
	$(GO_BUILD) -o $(BIN)/ ./cmd/otelcol-gpu-agent ./cmd/dcgmsim ./cmd/gpudoctor

.PHONY: run
run: agent ## Simulated nodes of three vendors through the collector: a live page, and the same in the terminal; Ctrl-C ends it
	@exec examples/quickstart.sh

# The same for `make test`, with the race detector in the agent and gpudoctor: what most
# packages' tests compile is what they are made of then.
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
check: test-long test-integration fuzz ## Run all other tests: long properties, control plane, Prometheus, Helm, examples, faults, fuzzing for some seconds

.PHONY: test-long
test-long: ## Run the properties and histories with all their cases
	.ci/test long "$(TAGS)"

.PHONY: test-integration
test-integration: build static $(PROMETHEUS) $(PROMTOOL) $(CONTROLPLANE_BINARIES) $(HELM) $(NFPM) ## Run the tests that start servers, below test/
	$(SERVERS) .ci/test integration "$(TAGS)"

# Installs packages into the root of a file system and changes the root of a process.
.PHONY: test-root
test-root: build static $(HELM) $(NFPM) ## Run the integration tests that need root
	$(SERVERS) go test -count=1 -timeout $(TEST_TIMEOUT) -tags "$(TAGS)" ./test/packages ./test/charts

# Scrapes and agents run by the clock, so they get a number of scrapes; the rest gets a second.
COMPARISON := ./test/bench
BENCHMARK = go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCH_COUNT) -timeout $(TEST_TIMEOUT) -tags "$(TAGS)"
.PHONY: bench
bench: build ## Run the benchmarks, peers beside them, and print the ratios; BENCH narrows them by name
	@{ $(BENCHMARK) -benchtime 40x -skip '^Benchmark(Agent|Parser|ScrapeMany)$$' $(COMPARISON); \
		OTELCOL_GPU_BIN="$(abspath $(BIN))" $(BENCHMARK) -benchtime 24x -skip '^Benchmark(Scrape|ScrapeMany|Parser)$$' $(COMPARISON); \
		$(BENCHMARK) -skip '^Benchmark(Agent|Scrape)$$' $(COMPARISON); \
		$(BENCHMARK) $$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -r -n1 dirname | sort -u | grep -vx '$(COMPARISON)'); \
	} | go run ./test/bench/table

# Nodes that are scraped; 1-held and 100k-instances are further scales. FLEET are nodes whose agents
# are replaced by what one of them sends, before gateways. CGROUP is a directory of a memory cgroup that
# may have children; without it what the kernel charges is not measured.
SCALES ?= 1,10,100,1000
FLEET ?=
CGROUP ?=
.PHONY: bench-compare
bench-compare: build $(PROMETHEUS) ## The agent beside the prometheus receiver and a real Prometheus, into test/benchcompare/RESULTS.md; SCALES=1,10 narrows it, FLEET=1000,10000 is the form for gateways
	go run -tags "$(TAGS)" ./test/benchcompare -collector $(BIN)/otelcol-gpu -prometheus "$(PROMETHEUS)" -scales $(SCALES) \
		-fleet "$(FLEET)" -cgroup "$(CGROUP)" -results test/benchcompare

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (5s)
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func /:/' | sort | while IFS=: read -r file name; do \
		.ci/fuzz "$$(dirname "$$file")" "$$name" "$(FUZZTIME)" "$(TAGS)" </dev/null; \
	done

.PHONY: examples
examples: build $(PROMETHEUS) $(CONTROLPLANE_BINARIES) ## Validate every file under examples/ and run each for some seconds
	$(SERVERS) go test -count=1 -v -timeout 15m -tags "$(TAGS)" ./test/examples ./test/manifests

.PHONY: faults
faults: build $(CONTROLPLANE_BINARIES) ## Run the long form of the fault tests and write their table into test/faults/RESULTS.md
	OTELCOL_GPU_BIN="$(CURDIR)/$(BIN)" OTELCOL_GPU_CONTROLPLANE="$(CONTROLPLANE)" OTELCOL_GPU_FAULTS_LONG=1 \
		go test -count=1 -timeout 15m -tags "$(TAGS)" ./test/faults -update

.PHONY: soak
soak: build ## 100,000 scrapes with churn in some minutes: memory, goroutines and files have to stay flat
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
check-generate: ## Fail when `make generate` would change a file
	@.ci/unchanged-by $(MAKE) --no-print-directory generate

.PHONY: check-tidy
check-tidy: ## Fail when any go.mod or go.sum of this repository is not tidy
	go mod tidy -diff
	go -C internal/tools mod tidy -diff
	go -C internal/tools/prometheus mod tidy -diff
	go -C test/controlplane mod tidy -diff
	go -C test/helm mod tidy -diff
	go -C internal/tools/sbom mod tidy -diff
	go -C internal/tools/nfpm mod tidy -diff

.PHONY: vulncheck
vulncheck: $(GOVULNCHECK) ## Fail on known vulnerabilities that the commands call; says so where the database cannot be reached
	@.ci/govulncheck $(GOVULNCHECK) "$(TAGS)"

.PHONY: ocb-classic
ocb-classic: build $(BIN)/ocb ## Build the manifest as a module of its own, outside this checkout
	@.ci/ocb-classic $(CURDIR)/$(BIN)/ocb $(CURDIR)/$(BIN)/otelcol-gpu

.PHONY: static
static: ## Build bin/static/otelcol-gpu, the collector without NVML, which needs no other file
	@mkdir -p $(BIN)/static
	$(GO_BUILD) -tags "$(STATIC_TAGS)" -o $(BIN)/static/ ./cmd/otelcol-gpu

# What is released has the time of its commit.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || date +%s)
# RELEASE_ARCHS=amd64 does for a look.
RELEASE_ARCHS ?= amd64 arm64
RELEASE_BUILD = GOOS=linux GOARCH=$$arch $(GO_BUILD)
.PHONY: release
release: $(BIN)/cyclonedx-gomod $(HELM) $(NFPM) ## Programs and packages for amd64 and arm64, SBOMs, chart, source and checksums into dist/
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
pin-images: $(CRANE) ## Write the digests that the base images have now into the Dockerfile
	.ci/pin-images $(CRANE)

.PHONY: clean
clean: ## Remove what was built; the tool cache stays
	rm -rf $(BIN) $(DIST)

$(BIN)/ocb: internal/tools/go.mod internal/tools/go.sum
	CGO_ENABLED=0 go -C internal/tools build $(GO_FLAGS) -o $(CURDIR)/$@ go.opentelemetry.io/collector/cmd/builder

$(BIN)/mdatagen: internal/tools/go.mod internal/tools/go.sum
	CGO_ENABLED=0 go -C internal/tools build $(GO_FLAGS) -o $(CURDIR)/$@ go.opentelemetry.io/collector/cmd/mdatagen

# GOFLAGS of the caller are meant for this module, not for a tool's.
$(GOLANGCI_LINT):
	GOFLAGS= GOBIN=$(@D) CGO_ENABLED=0 go install -trimpath -gcflags=all=-dwarf=false -ldflags "-s -w" github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)

$(GOVULNCHECK):
	GOFLAGS= GOBIN=$(@D) CGO_ENABLED=0 go install -trimpath -gcflags=all=-dwarf=false -ldflags "-s -w" golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)

$(PROMETHEUS) $(PROMTOOL):
	CGO_ENABLED=0 go -C internal/tools/prometheus build $(GO_FLAGS) -tags remove_all_sd -ldflags "-s -w" \
		-o $@ github.com/prometheus/prometheus/cmd/$(@F)

# The version is what the API server and the scheduler say of themselves.
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
