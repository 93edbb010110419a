# Every target that CI or a person needs. `make help` lists them from the ## comments.
SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
BIN         := build/bin

# One set of flags for builds and tests, so that neither compiles what the other has.
export GOFLAGS := $(shell go env GOFLAGS) -trimpath
MODULES     := . deploy/local deploy/local/kube deploy/tools/protogen deploy/tools/grpcurl deploy/tools/prometheus deploy/tools/sbom deploy/tools/idp test

.DEFAULT_GOAL := help
N    ?= 160
SEED ?= 0

.PHONY: help demo demo-workloads run build build-product servers test test-race explore bench check lint generated tools generate clean record-replay tidy fuzz sbom licences reproducible test-upgrade released released-if-had prometheus ready

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

build: build-product ## the drover binary, the simulated fleet, and an OpenID provider for tests
	@cd test && go build -o ../$(BIN)/fleet ./cmd/fleet
	@cd deploy/tools/idp && go build -o ../../../$(BIN)/idp .

build-product:
	@cd deploy/local && go run ./compile -name drover -dir ../../cmd/drover -o "$(CURDIR)/$(BIN)/drover"

servers: ## the local servers and clusters (minutes the first time, then cached)
	@deploy/local/build.sh
	@deploy/local/kube/build.sh

demo: servers ## the whole story of the vFW composite app on two local clusters
	@$(BIN)/drover-local demo $(ARGS)

demo-workloads: servers ## a Pod of a tenant's cluster, and what is made of it in the infrastructure cluster
	@$(BIN)/drover-local demo-workloads $(ARGS)

run: build-product servers ## the local stack and two clusters, until Ctrl-C; data in build/run. ARGS="--api-port 9115" for another port
	@$(BIN)/drover-local run $(ARGS)

prometheus: ## Prometheus and its tool, which tests ask about our rules (minutes the first time, then cached)
	@cd deploy/tools/prometheus && go build -tags remove_all_sd -ldflags '-s -w' -o ../../../$(BIN)/ github.com/prometheus/prometheus/cmd/prometheus github.com/prometheus/prometheus/cmd/promtool

released: ## the program of the last release, from its commit, for tests
	@deploy/tools/release.sh build

test-upgrade: build servers released ## operations of every kind, begun on the last release, end right on the present code
	@cd test && DROVER_TEST_REQUIRE=1 go test -count=1 -timeout 15m -v -run 'TestUpgrade$$' .

released-if-had: # a clone without history has no release; the test of upgrades is left out there, and says so. CI demands it
	@deploy/tools/release.sh build || [[ $$? == 3 ]]

ready: build servers prometheus # all that tests need but the last release, and what runs them
	@cd test && go build -o ../$(BIN)/ci ./cmd/ci

test: ready released-if-had ## all tests, end to end on real components included; what fails runs again, alone (docs/flaky.md); PARTS="race unit" for some
	@$(BIN)/ci $(PARTS)

test-race: servers prometheus released-if-had ## all tests of the product with the race detector, in API, worker and agent too
	@rm -rf build/race && mkdir -p build/race
	@go build -race -o $(BIN)/drover ./cmd/drover # until the next make build
	@cd test && go build -race -o ../$(BIN)/fleet ./cmd/fleet
	@export DROVER_TEST_REQUIRE=1 GORACE=log_path=$(CURDIR)/build/race/report; \
		go test -race ./... || failed=1; \
		(cd test && go test -race -timeout 60m ./...) || failed=1; \
		cat build/race/* 2>/dev/null && failed=1; \
		test -z "$${failed:-}" # a process that a test kills has reported, too

explore: build servers ## N sequences of commands and faults against the product (those of SEED, 0 is any), those that fail into build/explore, as short as can be found in 10 minutes; ARGS="-explore.replay=file"
	@mkdir -p build/explore
	@cd test && DROVER_TEST_REQUIRE=1 DROVER_EXPLORE=$(CURDIR)/build/explore go test -count=1 -timeout 24h -v -run 'TestExplore$$' ./explore \
		-explore.n=$(N) -explore.seed=$(SEED) -explore.shrink=10m $(ARGS)

bench: build servers ## the figures, into build/bench/report.md and report.json
	@cd test && DROVER_TEST_REQUIRE=1 DROVER_BENCH=$(CURDIR)/build/bench go test -count=1 -timeout 120m -run TestReport ./bench
	@cat build/bench/report.md

fuzz: ## every fuzz target, one after the other; FUZZTIME=20s for each, ONLY=FuzzKeys for some, WIDE=1 to be led by the code of others, too
	@deploy/tools/fuzz.sh $(or $(FUZZTIME),60s) $(ONLY)

sbom: build licences ## what the binary is made of (CycloneDX), into build/sbom; fails for a licence that is not allowed

licences: # sbom of the binary that there is
	@mkdir -p build/sbom
	@cd deploy/tools/sbom && go run . -binary ../../../$(BIN)/drover -source ../../.. -out ../../../build/sbom/drover.cdx.json

reproducible: ## two builds of the present commit, in two folders and without a cache, have the same hash (minutes)
	@deploy/tools/reproducible.sh

check: generated lint ## formatting, vet, lint, import rules, determinism, tidy and generated files

lint: tools ## what check asks of the sources, which it only reads
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'run gofmt -w'; exit 1; }
	@for m in $(filter-out deploy/local/kube deploy/tools/grpcurl deploy/tools/prometheus,$(MODULES)); do (cd $$m && $(CURDIR)/$(BIN)/golangci-lint run --allow-serial-runners ./...); done # vet is one of its linters
	@cd deploy/local/kube && $(CURDIR)/$(BIN)/golangci-lint run --allow-serial-runners --fast-only ./... # of all linters Kubernetes would take 7 GB, and four CPU minutes of vet alone
	@$(BIN)/workflowcheck ./workflows/...
	@go test -vet=off ./internal/arch
	@cd deploy/tools/sbom && go test -vet=off .
	@for m in $(MODULES); do (cd $$m && go mod tidy -diff); done

generated: generate ## fails when the sources do not make what is committed
	@git diff --exit-code --stat -- internal/statusnotify internal/universe || { echo 'commit what make generate made'; exit 1; }

generate: ## the Go code of the gRPC messages and services
	@go generate ./internal/statusnotify ./internal/universe

tools: ## the linters, built from pinned versions into build/bin
	@deploy/tools/build.sh

tidy: ## go mod tidy in every module
	@for m in $(MODULES); do (cd $$m && go mod tidy); done

TO ?= $(CURDIR)/workflows/testdata/replay/next
record-replay: build servers ## record workflow histories as replay fixtures into the folder TO, of the present code or PROGRAM; SITUATION="many clusters" for one
	@mkdir -p $(TO)
	@cd test && DROVER_TEST_REQUIRE=1 DROVER_RECORD_REPLAY=$(TO) DROVER_RECORD_PROGRAM=$(PROGRAM) go test -count=1 -timeout 30m -run 'TestRecordReplay/$(SITUATION)' .

clean: ## remove everything that was built or run here
	@rm -rf build
