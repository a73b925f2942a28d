# The targets of every day. The scripts behind them are in .ci.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
ARGS    ?=
BIN     ?= bin

# What long runs are given; make test does a tenth of each.
SOAK     ?= 10
FUZZTIME ?= 50s

ACTIONLINT = github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GOLANGCI = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: build libs run npm release test test-npm test-image test-release test-agents test-deploy agent-locks soak fuzz bench bench-apps bench-encoder bench-stream bench-settle bench-scale lint cover clean help

build: libs ## build bin/deskhand, a static binary, and the licences of what is in it
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' -o '$(BIN)/deskhand' ./cmd/deskhand
	CGO_ENABLED=0 $(GO) list -deps -json ./cmd/deskhand >'$(BIN)/.packages'
	GOOS= GOARCH= $(GO) run ./internal/notices -libs httpapi/libs.lock <'$(BIN)/.packages' >'$(BIN)/THIRD_PARTY_NOTICES'
	@rm '$(BIN)/.packages'

libs: ## fetch the third-party code of the page, as httpapi/libs.lock names it, from NPM_CONFIG_REGISTRY or npm's own
	@GOOS= GOARCH= $(GO) run ./internal/weblibs -registry "$${NPM_CONFIG_REGISTRY:-$$(npm config get registry 2>/dev/null)}"

run: ## install what is missing, build, and serve a desktop to look at; ARGS='--port 8080' are passed on
	@.ci/install run
	@$(MAKE) --no-print-directory build
	bin/deskhand server --demo $(ARGS)

npm: ## build the npm packages in dist/npm
	PATH="$$(.ci/node)$$PATH" VERSION='$(VERSION)' node npm/build.mjs

release: ## build dist: archives, .deb, .rpm, SBOM and sums for three architectures; VERSION=v1.2.3
	@GO='$(GO)' .ci/release '$(VERSION)'

test: ## install what is missing and run everything that must pass
	@.ci/install test
	@GO='$(GO)' .ci/test

test-release: ## the whole release, built twice, and its packages installed in a fresh Debian
	@.ci/install test
	@.ci/install release
	REQUIRE_TOOLS=1 DESKHAND_RELEASE=1 $(GO) test -count=1 -v -timeout 30m $(ARGS) ./deploy

test-agents: ## Claude Code, Codex and OpenCode against a model that does as it is told; downloads a gigabyte
	@.ci/install test
	@mkdir -p .cache/agents
	PATH="$$(.ci/node)$$PATH" REQUIRE_TOOLS=1 DESKHAND_AGENTS='$(CURDIR)/.cache/agents' $(GO) test -count=1 -v -timeout 30m $(ARGS) ./internal/agenttest
	PATH="$$(.ci/node 22)$$PATH" REQUIRE_TOOLS=1 DESKHAND_AGENTS='$(CURDIR)/.cache/agents' $(GO) test -count=1 -v -run '^TestRealLock$$' ./agents/registry

test-npm: ## all npm packages: every platform, and the Docker provider on a Docker engine
	@.ci/install npm
	PATH="$$(.ci/node)$$PATH" REQUIRE_TOOLS=1 DESKHAND_NPM=1 $(GO) test -count=1 -v -timeout 20m $(ARGS) ./internal/npmtest

test-deploy: ## the deployment guides and the first steps, with real proxies and servers; four minutes
	@.ci/install deploy
	PATH="$$(.ci/node)$$PATH" REQUIRE_TOOLS=1 DESKHAND_DEPLOY=1 $(GO) test -count=1 -v -timeout 20m $(ARGS) ./internal/deploytest

test-image: ## build all targets of the Dockerfile, run them and deploy/compose/fleet in every way, and print a table; 40 minutes
	@.ci/install image
	PATH="$$(.ci/node)$$PATH" REQUIRE_TOOLS=1 DESKHAND_IMAGES=1 $(GO) test -count=1 -v -timeout 60m -run '^TestImage$$' $(ARGS) ./internal/containertest

agent-locks: ## write agents/registry/locks anew: all npm packages that agents need, with their checksums
	@.ci/install test
	PATH="$$(.ci/node)$$PATH" REQUIRE_TOOLS=1 $(GO) test -count=1 -run '^TestLocks$$' ./agents/registry -args -update

soak: ## the soak tests at full length
	@.ci/install test
	PATH="$$(.ci/node)$$PATH" REQUIRE_TOOLS=1 DESKHAND_SOAK=$(SOAK) $(GO) test -count=1 -timeout 4h $(ARGS) ./...

fuzz: ## every fuzz target, FUZZTIME each
	@GO='$(GO)' .ci/fuzz $(FUZZTIME)

bench: ## measure against the reference server and print the table
	@.ci/install bench
	PATH="$$(.ci/node)$$PATH" $(GO) run ./internal/bench $(ARGS)

bench-apps: ## do tasks in real applications, beside xdotool, and print the table; ARGS='-n 5 -row Chromium' are passed on
	@.ci/install apps || echo "some applications are missing: their tasks are left out"
	$(GO) run ./internal/benchapps $(ARGS)

bench-encoder: ## measure the screen encoder against libvpx, a quarter of an hour; ARGS='-compare.clip terminal' are passed on
	@.ci/install test
	$(GO) test -count=1 -v -timeout 2h -run '^TestCompare$$' ./webrtc/vp8screen -args -compare $(ARGS)

bench-stream: ## measure the live view with Chromium as the viewer, ten minutes; ARGS='-row scroll' are passed on
	@.ci/install test
	$(GO) run ./internal/benchstream $(ARGS)

bench-settle: ## measure how well Settle finds the end of what real programs draw; ARGS='-rounds 3' are passed on
	@.ci/install apps
	$(GO) run ./internal/benchsettle $(ARGS)

bench-scale: ## many desktops, viewers, sessions and servers, three quarters of an hour; ARGS='-part idle,busy -cycles 300 -kill 30s' are passed on
	@.ci/install test
	REQUIRE_TOOLS=1 $(GO) test -count=1 -v -timeout 6h -run '^TestScale$$' ./internal/benchscale -args -scale $(ARGS)

lint: ## golangci-lint, the installed one or a pinned one through go run, actionlint, and go vet for two more architectures
	GOARCH=arm CGO_ENABLED=0 $(GO) vet ./cmd/deskhand
	GOARCH=arm64 CGO_ENABLED=0 $(GO) vet ./cmd/deskhand
	$(GO) run $(ACTIONLINT)
	@if command -v golangci-lint >/dev/null; then golangci-lint run ./...; else $(GO) run $(GOLANGCI) run ./...; fi

cover: ## test coverage, by function and in coverage.html
	@.ci/install test
	PATH="$$(.ci/node)$$PATH" REQUIRE_TOOLS=1 $(GO) test -coverpkg=./... -coverprofile=coverage.out ./...
	$(GO) tool cover -func=coverage.out | tail -n 1
	$(GO) tool cover -html=coverage.out -o coverage.html

clean: ## remove what the targets above made
	rm -rf bin dist .cache httpapi/ui/lib coverage.out coverage.html

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 15
