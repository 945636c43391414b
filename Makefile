# Every target has a line of help: `make help` prints them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X k8s.io/component-base/version.gitVersion=v1.36.3+slipway.$(VERSION)
GOLANGCI := go tool -modfile=go.tools.mod golangci-lint

# grpc's pages about its calls use html/template, which calls methods by name: the linker then keeps each method of each type, most of the AWS SDK among them, and
# the launcher is twice as large. What slipway is compared with is built as its own makers build it.
USERS_GOFLAGS := $(filter-out -tags=grpcnotrace,$(GOFLAGS))
COMPARED := GOFLAGS='$(USERS_GOFLAGS)'
export GOFLAGS := $(strip $(USERS_GOFLAGS) -tags=grpcnotrace)

# These link kube-apiserver, or run what does: the race detector would double a build of minutes for code that is not ours.
APISERVER := ./e2e ./e2e/variants ./e2e/commands ./e2e/walk ./e2e/bench ./e2e/scale ./e2e/causes ./e2e/controlplane ./e2e/sandbox ./e2e/demo ./cmd/slipway-sandbox
# Pure code, without a goroutine (a test holds this list against it): the race detector has nothing to find, and costs minutes.
PURE := ./cmd/slipway ./internal/disruption ./internal/disruption/conditions ./internal/disruption/parity ./e2e/aws/instancetypes ./e2e/aws/meter ./e2e/aws/policy ./e2e/aws/wire ./e2e/causes/catalogue ./e2e/objects ./e2e/day ./e2e/scale/calls ./e2e/machines/delay ./e2e/machines/userdata \
	./internal/conventions ./internal/buffersize ./internal/window ./internal/workload ./internal/manifest ./internal/release ./internal/release/archive ./internal/release/image ./internal/release/krew ./internal/release/licenses ./internal/terminal ./launcher/aws/userdata ./launcher/bill ./launcher/catalog ./launcher/catalog/builtin ./launcher/catalog/commitment ./launcher/catalog/fromec2 ./launcher/catalog/overlay \
	./launcher/catalog/ec2error ./launcher/convert ./launcher/drain ./launcher/view ./manifests ./manifests/chart ./plugin/batch ./plugin/buffers ./plugin/consolidate ./plugin/consolidate/cover ./plugin/consolidate/movebound ./plugin/explain ./plugin/parity ./plugin/plan ./plugin/plan/bitset ./plugin/plan/nodematch ./plugin/plan/relations ./plugin/simulate \
	./plugin/provision ./plugin/provision/podclass ./plugin/provision/clusterview ./plugin/provision/devices ./plugin/simulate/bufferpods ./plugin/simulate/input ./plugin/simulate/edits ./plugin/simulate/market ./plugin/simulate/report
# What only a host with containerd can run has a target of its own.
KUBELETS := ./e2e/kubelets
KIND := ./e2e/kind
# What runs Karpenter's own controller has a target of its own: it is built first, which takes minutes.
KARPENTER := ./e2e/karpenter
# What needs a browser has a target of its own: make ui-browser.
BROWSER := ./e2e/page
# What runs kube-scheduler's own benchmarks starts a kube-apiserver for each, and has a target of its own.
SCHEDULERPERF := ./e2e/schedulerperf
PURE += ./e2e/karpenter/beside ./e2e/schedulerperf/cases ./e2e/proc ./e2e/spottrace ./launcher/catalog/interruption ./launcher/finalizer ./plugin/ondemand
# All others are tested with the race detector.
OTHERS = $(filter-out $(patsubst ./%,github.com/slipway-k8s/slipway/%,$(APISERVER) $(PURE) $(KUBELETS) $(KIND) $(KARPENTER) $(BROWSER) $(SCHEDULERPERF)),$(shell go list ./...))

# Many tests wait more than they compute: twice as many packages as processors run beside each other, and eight tests of one.
BESIDE = -p $(shell expr 2 '*' $$(getconf _NPROCESSORS_ONLN)) -parallel 8

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: build
build: ## Build the four binaries into bin/
	@echo "building into bin/ (the first time takes some minutes: it compiles Kubernetes)"
	go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

.PHONY: demo
demo: build ## Watch pods go from Pending to Running on nodes that slipway plans, launches and pre-binds; UI=1 serves the page of slipway ui meanwhile
	bin/slipway-sandbox demo $(if $(UI),--ui)

.PHONY: test
test: build ## Run all tests: units and scenarios with the race detector, and end to end on sandboxes beside them
	$(MAKE) --no-print-directory -j 4 test-race test-alone-a-l test-alone-m-z test-beside

# The end-to-end tests wait more than they compute, and units compute: they run beside each other, and units take what is left of the processors.
.PHONY: test-race
test-race:
	nice -n 10 go test -race -p 3 -parallel 8 -timeout 20m $(OTHERS)
	nice -n 10 go test $(BESIDE) -timeout 20m $(PURE)
	cd $(ATTEST) && go test -timeout 20m ./...

# Tests that disturb others, one after the other. Each half of them, by name, has a sandbox of its own.
.PHONY: test-alone-a-l
test-alone-a-l:
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -timeout 25m -run '^Test[A-L].*Alone$$' ./e2e

.PHONY: test-alone-m-z
test-alone-m-z:
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -timeout 25m -run '^Test[M-Z].*Alone$$' ./e2e

# Tests that disturb no others; then the other packages that have a sandbox.
.PHONY: test-beside
test-beside:
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -timeout 25m -parallel 8 -skip 'Alone$$' ./e2e
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -timeout 25m -parallel 8 $(filter-out ./e2e,$(APISERVER))

.PHONY: test-unit
test-unit: ## Run the tests that need no control plane, without the race detector: the quick ones
	go test $(BESIDE) -timeout 10m $(OTHERS) $(PURE)
	cd $(ATTEST) && go test -timeout 10m ./...

.PHONY: e2e
e2e: build ## Run the end-to-end tests alone; RUN=regexp picks some
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -timeout 30m -parallel 8 -v -run '$(RUN)' ./e2e

.PHONY: causes
causes: build ## Inject each cause of docs/causes.md into a sandbox, compare what a user sees and apply the proposed edit (three minutes); NAME=regexp picks some
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -count 1 -timeout 20m -v -run 'TestCauses/.*/$(NAME)' ./e2e/causes

VERSIONS = 1.33 1.34 1.35 1.36

.PHONY: test-versions
test-versions: build ## Run scheduler and launcher against an API server of each supported version (half a minute each); VERSIONS="1.33 1.36" picks some
	go test -c -o bin/variants.test ./e2e/variants
	cd e2e/variants && for version in $(VERSIONS); do \
		SLIPWAY_BIN_DIR=$(CURDIR)/bin $(CURDIR)/bin/variants.test -test.timeout 10m -test.v -test.run '^TestVersion$$' -variants.version $$version || exit 1; \
	done

.PHONY: hostile
hostile: build ## Attack a sandbox as a user who may edit one namespace, and print what each attack did to others (up to ten minutes)
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -count 1 -timeout 20m -v -run '^TestHostile$$' ./e2e -hostile

.PHONY: crash-walk
crash-walk: build ## Kill, stop and cut off at every step of every flow (hours); FLOW=name,... CASE=regexp EVERY=n (each n-th case) LANES=n (sandboxes beside each other) DONE=file (what was walked; left out) FOR=9m (begin no case after that)
	GOGC=200 SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -count 1 -timeout 0 -parallel $(or $(LANES),6) -v -run 'TestCrashWalk|TestTwoReplicas' ./e2e/walk \
		-walk -walk.flow='$(FLOW)' -walk.case='$(CASE)' -walk.done='$(abspath $(DONE))' -walk.every=$(or $(EVERY),1) -walk.lanes=$(or $(LANES),6) -walk.for=$(or $(FOR),0)

.PHONY: soak
soak: build ## Random trouble on the sandbox, judged all the time; DURATION=10m SEED=n (to do the same again)
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -timeout 0 -v -run '^$$' -bench Soak -benchtime 1x ./e2e/walk -soak=$(or $(DURATION),10m) -soak.seed=$(or $(SEED),0)

.PHONY: kubelet
kubelet: ## Build the kubelet of `slipway-sandbox up --machines kubelet`, and its tests' device plugin, into bin/ (Linux)
	go build -ldflags '$(LDFLAGS)' -o bin/ ./e2e/machines/kubelet/slipway-kubelet
	CGO_ENABLED=0 go build -ldflags '-s -w' -o bin/slipway-device-plugin ./e2e/machines/kubelet/device-plugin

.PHONY: e2e-kubelet
e2e-kubelet: build kubelet ## Run the end-to-end tests on real kubelets (Linux, root; apt: containerd runc containernetworking-plugins iptables busybox-static curl jq); RUN=regexp picks some
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -count 1 -timeout 30m -v -run '$(RUN)' $(KUBELETS)

.PHONY: e2e-kubelet-smoke
e2e-kubelet-smoke: build kubelet ## Run the part of e2e-kubelet that every change passes: three minutes
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -count 1 -timeout 12m -v -run '^(TestSmoke|TestStandby)$$' $(KUBELETS)

# What both targets measure and where they keep it: FILE is better outside of bin/ where that is thrown away.
FIGURES = -bench.file=$(abspath $(or $(FILE),bin/kubelets.figures)) -bench.cells='$(CELLS)'

.PHONY: bench-kubelet
bench-kubelet: build kubelet ## Measure the figures of docs/benchmarks.md on real kubelets, into bin/kubelets.figures, and go on with what it has; ROUNDS=10 CELLS=regexp (pods=10) MINUTES=n BESIDE=n FILE=path
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -count 1 -timeout 0 -run '^$$' -bench Start -benchtime 1x -v $(KUBELETS) $(FIGURES) \
		-bench.rounds=$(or $(ROUNDS),10) -bench.minutes=$(or $(MINUTES),0) -bench.beside=$(or $(BESIDE),0)

.PHONY: bench-kubelet-table
bench-kubelet-table: ## Print the medians of what bench-kubelet has measured; CELLS=regexp FILE=path
	@go test -count 1 -v $(KUBELETS) $(FIGURES) -bench.table

.PHONY: karpenter
karpenter: ## Build Karpenter's own controller and a stock kube-scheduler into bin/ (minutes, the first time)
	$(COMPARED) go build -modfile=e2e/karpenter/karpenter.mod -o bin/karpenter github.com/aws/karpenter-provider-aws/cmd/controller
	$(COMPARED) go build -o bin/kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler

.PHONY: karpenter-on-sandbox
karpenter-on-sandbox: build karpenter ## Run Karpenter's own controller, unchanged, on the sandbox's AWS: launches, an interruption, consolidation, and beside slipway, NodePools handed over (seven minutes); PODS=300 SPEED=4 (1 is EC2's)
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -count 1 -timeout 30m -v -run '^(TestKarpenter|TestHandover)$$' $(KARPENTER) -karpenter.pods=$(or $(PODS),300) -karpenter.speed=$(or $(SPEED),4)

.PHONY: beside-karpenter
beside-karpenter: build karpenter ## Measure slipway and Karpenter with a stock kube-scheduler one after the other, each alone on a sandbox: scale-out, constraints, scale-in, drift, a spot reclaim, stock-outs, as tables of medians (an hour and a half a round); PODS=300 ROUNDS=1 PHASES=regexp SPEED=1 (EC2's) MINUTES=10 (watched after a scale-in); light machines from 1,000 pods
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -count 1 -timeout 0 -v -run '^$$' -bench Beside -benchtime 1x $(KARPENTER) -karpenter.pods=$(or $(PODS),300) \
		-karpenter.rounds=$(or $(ROUNDS),1) -karpenter.phases='$(PHASES)' -karpenter.speed=$(or $(SPEED),1) -karpenter.minutes=$(or $(MINUTES),10)

.PHONY: beside-karpenter-smoke
beside-karpenter-smoke: build karpenter ## Run the phases of beside-karpenter with few pods and fast machines, and fail where slipway is later, more expensive or has fewer pods Ready (ten minutes); PODS=30 SPEED=20 PHASES=regexp
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -count 1 -timeout 30m -v -run '^TestBeside$$' $(KARPENTER) -karpenter.pods=$(or $(PODS),30) \
		-karpenter.phases='$(PHASES)' -karpenter.speed=$(or $(SPEED),20) -karpenter.minutes=2

# The cases of 5,000 nodes; Kubernetes has PreemptionBasic with 1,000.
PERF_CASES := ^(SchedulingBasic|SchedulingPodAntiAffinity|SchedulingPodAffinity|TopologySpreading|Unschedulable|PreemptionBasic|SchedulingWithMixedChurn)$$
PERF_WORKLOADS := ^(5000Nodes_(2000|5000|10000)Pods|5kNodes/100Init/10kPods|1000Nodes)_QueueingHintsEnabled$$

.PHONY: scheduler-perf
scheduler-perf: ## Run kube-scheduler's own benchmarks with its default profile and with slipway's, one after the other, as a table of pods bound per second (half an hour a round); CASES=regexp WORKLOADS=regexp ROUNDS=3 BATCHING=true (the gate OpportunisticBatching on both sides) OUT=folder PROFILE=true (CPU profiles in it)
	go test -count 1 -timeout 0 -v -run '^TestBeside$$' $(SCHEDULERPERF) -schedulerperf.cases='$(or $(CASES),$(PERF_CASES))' -schedulerperf.workloads='$(or $(WORKLOADS),$(PERF_WORKLOADS))' \
		-schedulerperf.rounds=$(or $(ROUNDS),1) -schedulerperf.batching=$(or $(BATCHING),false) -schedulerperf.profile=$(or $(PROFILE),false) -schedulerperf.out='$(if $(OUT),$(abspath $(OUT)))'

.PHONY: scheduler-perf-smoke
scheduler-perf-smoke: ## Run two of them with 500 nodes: what every change passes (a minute, and a link)
	go test -count 1 -timeout 10m -v -run '^TestSmoke$$' $(SCHEDULERPERF)

.PHONY: scale
scale: build ## Run many nodes and pods on light machines through scale out, rest, drift with an end of both processes, consolidation and scale in, as tables of what it cost (hours); NODES=5000 PODS=50000 WAVE=5000 (pods at once) DRIFT=2 (tenths of the nodes) SPEED=1 (EC2's) REST=60s SETTLE=5m PATIENCE=2h UNTIL=stage (the last) PROFILES=folder LOG=file (a new one, for the audit log)
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -count 1 -timeout 0 -v -run '^$$' -bench Scale -benchtime 1x ./e2e/scale -scale.nodes=$(or $(NODES),5000) -scale.pods=$(or $(PODS),50000) -scale.wave=$(or $(WAVE),5000) -scale.drift=$(or $(DRIFT),2) \
		-scale.speed=$(or $(SPEED),1) -scale.rest=$(or $(REST),60s) -scale.settle=$(or $(SETTLE),5m) -scale.patience=$(or $(PATIENCE),2h) -scale.until='$(UNTIL)' -scale.profiles='$(abspath $(PROFILES))' -scale.log='$(abspath $(LOG))'

.PHONY: pending
pending: build ## Measure what pods that fit nowhere cost, and how long pods that fit wait beside them (twenty minutes); PODS=15000 REST=60s SPEED=1
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -count 1 -timeout 0 -v -run '^$$' -bench Pending -benchtime 1x ./e2e/scale -scale.pods=$(or $(PODS),15000) -scale.rest=$(or $(REST),60s) -scale.speed=$(or $(SPEED),1)

.PHONY: kind-image
kind-image: ## Build kind's node image, and kind, from source into bin/kind, where no registry can be reached (Linux, root; apt: debootstrap gcc libc6-dev)
	go run ./e2e/kind/nodeimage

.PHONY: e2e-kind
e2e-kind: ## Run the end-to-end tests on kind, with the user's Docker or Debian's docker.io; KIND_NODE_IMAGE=name RUN=regexp
	$(MAKE) images VERSION=0.1.0 ARCH=$(shell go env GOARCH)
	$(MAKE) charts CHART_VERSION=0.1.0
	CGO_ENABLED=0 go build -o bin/kind/bin/runtime ./e2e/kind/runtime
	GOBIN=$(CURDIR)/bin/kind/bin CGO_ENABLED=0 go install -trimpath -ldflags '-s -w' helm.sh/helm/v3/cmd/helm@$(shell go list -m -f '{{.Version}}' helm.sh/helm/v3)
	KIND_NODE_IMAGE='$(KIND_NODE_IMAGE)' SLIPWAY_KIND_DIR=$(CURDIR)/bin/kind SLIPWAY_IMAGES_DIR=$(CURDIR)/bin/images SLIPWAY_CHARTS_DIR=$(CURDIR)/bin/charts go test -count 1 -timeout 60m -v -run '$(RUN)' $(KIND)

.PHONY: bounce
bounce: build ## Scale a Deployment to nothing and back, again and again; PODS=500 TIMES=5
	SLIPWAY_BOUNCED=$(or $(PODS),500) SLIPWAY_BOUNCES=$(or $(TIMES),5) SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -count 1 -timeout 30m -v -run '^TestBounce$$' ./e2e

.PHONY: karpenter-suite
karpenter-suite: build ## Run Karpenter's own test suite, built from its module, against slipway in a sandbox; SUITE=regression (or performance) FOCUS=regexp SKIP=regexp SPEED=10 (1 is EC2's) OUT=folder
	go run ./e2e/karpentersuite --suite '$(or $(SUITE),regression)' --focus '$(FOCUS)' --skip '$(SKIP)' --speed $(or $(SPEED),10) --out '$(or $(OUT),bin/karpenter-suite)'

# One case of each kind that is quick: about two minutes once the suite is built.
SMOKE = StandaloneNodeClaim should (create a standard|delete a NodeClaim from the node)|Integration (CRD Hash|Validation NodePool)|budgets for empty drift|StaticCapacity Deprovisioning should scale down to zero

.PHONY: karpenter-suite-smoke
karpenter-suite-smoke: build ## Run the part of karpenter-suite that every change passes: two minutes, and three more to build it the first time
	go run ./e2e/karpentersuite --focus '$(SMOKE)' --out bin/karpenter-suite-smoke

.PHONY: bench
bench: build ## Repeat the figures of docs/benchmarks.md (about half an hour); RUN=regexp picks some
	go test -run '^$$' -bench '$(or $(RUN),.)' ./plugin/... ./launcher/...
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -timeout 60m -run '^$$' -bench '$(or $(RUN),.)' -benchtime 1x -v ./e2e/bench

# A variable: commas would end it within or.
DAY_RULES := off,greedy,on,alone,keen

.PHONY: day
day: ## Replay a generated day with consolidation off, greedy and on, and with commitments: dollars, evictions, churn, waits (half an hour); SEED=n FROM=minute MINUTES=n RULES=on,alike,ordered
	GOGC=400 go test -count 1 -timeout 60m -run '^$$' -bench Day -benchtime 1x -v ./e2e/day -day.seed=$(or $(SEED),1) -day.from=$(or $(FROM),0) -day.minutes=$(or $(MINUTES),0) -day.rules=$(or $(RULES),$(DAY_RULES))

.PHONY: spot-traces
spot-traces: ## Replay traces of spot markets beside an oracle (some minutes); KINDS=scarce,calm DAYS=n PODS=n SEEDS=n FIRST=n (the first seed) FILE=trace.csv (a recorded one as well)
	GOGC=400 go test -count 1 -timeout 120m -run '^$$' -bench SpotTraces -benchtime 1x ./e2e/spottrace -spot.days=$(or $(DAYS),2) -spot.pods=$(or $(PODS),100) -spot.seeds=$(or $(SEEDS),1) -spot.first=$(or $(FIRST),1) $(if $(KINDS),-spot.kinds=$(KINDS)) -spot.file=$(FILE)

.PHONY: fuzz-planner
fuzz-planner: ## Plan random clusters against the scheduler's own filters; DURATION=10m SEED=n (the first) PROCS=n HOSTILE=true (hostile cases alone)
	go test -count 1 -timeout 0 ./plugin/parity -run TestParity -v -args -duration=$(or $(DURATION),10m) -seed=$(or $(SEED),0) -procs=$(or $(PROCS),0) -hostile=$(or $(HOSTILE),false)

.PHONY: lint
lint: ## Run the linter (it is built the first time: about three minutes)
	$(GOLANGCI) run ./...
	cd $(ATTEST) && go tool -modfile=$(CURDIR)/go.tools.mod golangci-lint run ./...

.PHONY: fmt
fmt: ## Format the code as the linter wants it
	$(GOLANGCI) fmt ./...

.PHONY: check
check: lint test ## All that a change must pass

.PHONY: generate
generate: ## Generate the gRPC code from launcher/api/launcher.proto (needs protoc)
	GOBIN=$(CURDIR)/.cache/bin go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11
	GOBIN=$(CURDIR)/.cache/bin go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.0
	PATH="$(CURDIR)/.cache/bin:$$PATH" protoc --go_out=. --go_opt=paths=source_relative \
		--go-grpc_out=. --go-grpc_opt=paths=source_relative launcher/api/launcher.proto

# The page is built in .cache/ui: what npm installs is no part of the module. npm's scripts are not run.
PAGE = .cache/ui

.PHONY: ui-install
ui-install:
	mkdir -p $(PAGE) && rm -rf $(PAGE)/src $(PAGE)/test $(PAGE)/dist $(PAGE)/build
	cp -a ui/page/. launcher/webapi/openapi.json $(PAGE)/
	cd $(PAGE) && npm ci --ignore-scripts --no-audit --no-fund --silent

.PHONY: ui-build
ui-build: ui-install
	cd $(PAGE) && npm run --silent check && npm run --silent build && npm run --silent test

.PHONY: ui
ui: ui-build ## Build the page of slipway ui from ui/page into ui/dist, which is committed (needs Node.js 20 and npm)
	rm -rf ui/dist && cp -a $(PAGE)/dist ui/dist
	cp $(PAGE)/node_modules/preact/LICENSE ui/LICENSE.preact

.PHONY: ui-check
ui-check: ## Check the types of ui/page, test it, build it, and compare with what is committed; where npm cannot install, it says so and ends well
	@if ! command -v npm >/dev/null; then echo "THE PAGE WAS NOT BUILT AGAIN: npm is not installed"; exit 0; fi; \
	if ! $(MAKE) --no-print-directory ui-install; then echo "THE PAGE WAS NOT BUILT AGAIN: npm could not install what builds it"; exit 0; fi; \
	cd $(PAGE) && npm run --silent check && npm run --silent build && npm run --silent test && cd $(CURDIR) && \
	diff -r $(PAGE)/dist ui/dist && cmp $(PAGE)/node_modules/preact/LICENSE ui/LICENSE.preact && \
	echo "ui/dist is what ui/page builds: $$(cat ui/dist/* | wc -c) bytes"

.PHONY: ui-browser
ui-browser: build ui-install ## Look at each view of the page in Chromium (apt: chromium; Node.js, npm), on a sandbox of 200 nodes and while AWS fails: two minutes; LONG=true (each width, both schemes, and faults that take minutes) SCREENSHOTS=folder
	SLIPWAY_BIN_DIR=$(CURDIR)/bin go test -count 1 -timeout 60m -v -run '^TestPage$$' $(BROWSER) $(if $(LONG),-page.long) $(if $(SCREENSHOTS),-page.screenshots='$(abspath $(SCREENSHOTS))')

.PHONY: darwin
darwin: ## Show that the commands build for macOS
	GOOS=darwin go build -o /dev/null ./cmd/slipway-scheduler
	GOOS=darwin go build -o /dev/null ./cmd/slipway-launcher
	GOOS=darwin go build -o /dev/null ./cmd/slipway
	GOOS=darwin go build -o /dev/null ./cmd/slipway-sandbox

.PHONY: arm64
arm64: ## Show that the commands build for Linux on arm64 (minutes, the first time); COMMANDS="slipway slipway-launcher" picks some
	for command in $(or $(COMMANDS),$(COMMANDS_OF_ARM64)); do \
		CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -o /dev/null ./cmd/$$command || exit 1; \
	done

.PHONY: arm64-run
arm64-run: ## Run the commands, built for Linux on arm64, in an emulator: Debian's package qemu-user-static, or QEMU=... (minutes, the first time)
	for command in $(COMMANDS_OF_ARM64); do CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -o bin/arm64/ ./cmd/$$command || exit 1; done
	go build -o bin/ ./cmd/slipway
	for command in $(COMMANDS_OF_ARM64); do $(ARM64) bin/arm64/$$command --version || exit 1; done
	$(ARM64) bin/arm64/slipway-scheduler --help | grep -q 'kube-scheduler with the plugins NodeLaunch and NodeReserve'
	$(ARM64) bin/arm64/slipway-sandbox --help | grep -q slipway-sandbox
	$(ARM64) bin/arm64/slipway-launcher --cluster-name arm64 --kubeconfig bin/arm64/none --logging-format karpenter 2>&1 | grep '"level":"ERROR".*bin/arm64/none'
	$(SIMULATED) bin/slipway $(SIMULATE) | $(SAME) >bin/arm64/want.json
	$(SIMULATED) $(ARM64) bin/arm64/slipway $(SIMULATE) | $(SAME) >bin/arm64/got.json
	grep -q '"instanceType"' bin/arm64/want.json && diff bin/arm64/want.json bin/arm64/got.json && echo 'slipway simulate: the same plan on arm64'

COMMANDS_OF_ARM64 = slipway-scheduler slipway-launcher slipway slipway-sandbox
ARM64 = $(or $(QEMU),qemu-aarch64-static)
# A plan for twenty pods of the samples, without what differs from run to run.
SIMULATED = { cat manifests/samples/nodepool.yaml; echo ---; sed 's/replicas: 0/replicas: 20/' manifests/samples/inflate.yaml; } |
SIMULATE = simulate -f - -o json
SAME = grep -v 'Seconds"\|peakRSSMiB'

.PHONY: images
images: ## Build the multi-arch container images into bin/images, without Docker; ARCH=amd64,arm64 REPOSITORY=... PUSH=true
	go run ./internal/release images --version '$(VERSION)' --revision '$(shell git rev-parse HEAD 2>/dev/null)' --ldflags '$(LDFLAGS)' \
		$(if $(ARCH),--arch '$(ARCH)') --repository '$(or $(REPOSITORY),ghcr.io/slipway-k8s)' --push=$(or $(PUSH),false)

.PHONY: charts
charts: ## Pack the Helm charts into bin/charts, with Karpenter's CRDs from its modules; CHART_VERSION=1.2.3 DIGESTS=bin/images/images.txt (images by digest)
	go run ./internal/release charts --version '$(CHART_VERSION)' --digests '$(DIGESTS)'

# What a release is built with is the Go of go.mod's toolchain line, whatever is installed.
TOOLCHAIN = $(shell awk '$$1 == "toolchain" {print $$2}' go.mod)
RELEASE = $(CURDIR)/bin/release
# attest is a module of its own: what it needs is not in go.mod.
ATTEST = internal/release/attest

# SIGN=keyless signs with the identity of the workflow that runs this.
.PHONY: release
release: export GOTOOLCHAIN = $(TOOLCHAIN)
release: $(if $(filter keyless,$(SIGN)),cosign) ## Build all that a release has into bin/release; VERSION=1.2.3 REPOSITORY=... PUSH=true COSIGN_KEY=file (or SIGN=keyless in a workflow) ARCH= and PLATFORM= pick some
	@[[ '$(VERSION)' =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$$ ]] || { echo "release: VERSION=MAJOR.MINOR.PATCH is expected, not $(VERSION)"; exit 1; }
	@git diff --quiet HEAD || { echo "release: the provenance names the commit, and this tree has changes that are not committed"; exit 1; }
	@[ -z '$(COSIGN_KEY)' ] || [ -r '$(abspath $(COSIGN_KEY))' ] || { echo "release: COSIGN_KEY is the file of a key, and $(abspath $(COSIGN_KEY)) cannot be read"; exit 1; }
	rm -rf $(RELEASE)
	go run ./internal/release images --out $(RELEASE) --archives=false --version '$(VERSION)' --revision '$(shell git rev-parse HEAD 2>/dev/null)' --ldflags '$(LDFLAGS)' \
		$(if $(ARCH),--arch '$(ARCH)') --repository '$(or $(REPOSITORY),ghcr.io/slipway-k8s)'
	rm -rf $(RELEASE)/images/linux-*
	go run ./internal/release charts --out $(RELEASE) --version '$(VERSION)' --digests $(RELEASE)/images/images.txt
	mv $(RELEASE)/charts/* $(RELEASE)/images/images.txt $(RELEASE)/ && rmdir $(RELEASE)/charts
	go run ./internal/release cli --out $(RELEASE) --version '$(VERSION)' --ldflags '$(LDFLAGS)' $(if $(PLATFORM),--platform '$(PLATFORM)')
	cd $(ATTEST) && COSIGN_KEY='$(abspath $(COSIGN_KEY))' go run . --release $(RELEASE) --version '$(VERSION)' --revision '$(shell git rev-parse HEAD 2>/dev/null)' --ldflags '$(LDFLAGS)' \
		--push=$(or $(PUSH),false) $(if $(filter keyless,$(SIGN)),--keyless $(CURDIR)/bin/cosign)

.PHONY: cosign
cosign: ## Build cosign, pinned in go.release.mod, into bin/ (minutes)
	go build -modfile=go.release.mod -o bin/cosign github.com/sigstore/cosign/v3/cmd/cosign

.PHONY: release-check
release-check: cosign ## Verify with the real cosign what a test signs, and build a release's command line twice with caches of their own (minutes)
	cd $(ATTEST) && SLIPWAY_COSIGN=$(CURDIR)/bin/cosign go test -count 1 -timeout 10m -v -run TestCosignVerifies .
	for run in 1 2; do \
		GOTOOLCHAIN=$(TOOLCHAIN) GOCACHE=$(CURDIR)/.cache/release-$$run go run ./internal/release cli --out $(CURDIR)/.cache --version 0.0.0 --ldflags '$(LDFLAGS)' --platform linux/$(shell go env GOARCH) && \
		mv .cache/slipway_0.0.0_linux_$(shell go env GOARCH).tar.gz .cache/release-$$run.tar.gz || exit 1; \
	done
	cmp .cache/release-1.tar.gz .cache/release-2.tar.gz
	rm -rf .cache/release-*

GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.1.4
VULNDB = $(or $(GOVULNDB),https://vuln.go.dev)

# govulncheck ends with 3 where it found something, and with 1 where it did not run to its end.
.PHONY: vuln
vuln: ## Look for known vulnerabilities; without its database online it says so and ends well
	@if ! curl -fsS -m 5 -o /dev/null $(VULNDB)/index/db.json; then echo "VULNERABILITIES NOT LOOKED FOR: the database $(VULNDB) cannot be reached"; exit 0; fi; \
	GOBIN=$(CURDIR)/.cache/bin go install $(GOVULNCHECK) && .cache/bin/govulncheck ./... || { code=$$?; [ $$code = 3 ] && exit 1; \
	echo "VULNERABILITIES NOT LOOKED FOR: govulncheck ended with $$code"; }

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin .cache
