# Two commands for a newcomer: `make demo` runs a real job to completion, `make test` runs the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CACHE := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)

.PHONY: demo test test-pythons test-long dist lint e2e e2e-long e2e-kube e2e-clients e2e-clients-slice e2e-cluster e2e-debian conformance conformance-slice differential judge-training attack attack-slice chaos mutate audit lock chart docs bench bench-kube clean
.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: $(PYTHON) is older than Python 3.11; run: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
		{ echo "error: $(PYTHON) has no ensurepip; on Debian or Ubuntu install it with: apt-get install python3-venv"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(VENV)/bin/python pyproject.toml
	@echo "installing strato and what it needs into $(VENV); the first time this takes a minute …"
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable .
	@$(BIN)/python -m compileall -q src/strato # pip leaves an editable source out; saves 0.4 s a start where Python writes none
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

demo: $(VENV)/.base ## Run five copies of a distributed training job on an embedded cluster, to completion.
	@$(BIN)/python examples/parameter-server/demo.py
	@echo "the command is $(BIN)/strato; next: $(BIN)/strato up"

test: $(VENV)/.dev ## Run the default test suite.
	$(BIN)/python -m pytest

test-pythons: $(VENV)/.dev ## Run the tests where versions differ on every other Python that is installed; PYTHONS=--whole: all.
	$(BIN)/python tools/pythons.py $(PYTHONS)

dist: $(VENV)/.dev ## Build wheel and source archive, install each into a fresh environment and run a job with it.
	$(BIN)/python -m pip install --quiet --group dist
	$(BIN)/python tools/dist.py

lint: $(VENV)/.dev ## Check format, lint, types and the direction of imports.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test-long: $(VENV)/.dev ## Run the tests that compare two ways of deciding with 1,000 examples each.
	$(BIN)/python -m pytest --hypothesis-profile=long -o timeout=7200 -m 'hypothesis and not e2e and not kube and not attack'

e2e: $(VENV)/.dev ## Drive the embedded cluster with kubectl, real processes and kill -9.
	$(BIN)/python -m pytest -o timeout=600 -n 3 --dist loadfile --no-loadscope-reorder -m e2e tests/e2e

e2e-long: $(VENV)/.dev ## Run those of its tests that start, kill and stop clusters at random moments, four times as often.
	STRATO_E2E_LONG=1 $(BIN)/python -m pytest -o timeout=5400 -m e2e tests/e2e/test_laptop.py tests/e2e/test_up_down.py

e2e-kube: $(VENV)/.dev ## Run the same end-to-end tests on a real kube-apiserver (needs Go).
	@command -v go >/dev/null || { echo "make e2e-kube: skipped, Go is not installed (https://go.dev/dl)"; exit 0; }; \
	tests/e2e/kube/controlplane/build.sh && STRATO_E2E_WORLD=kube $(BIN)/python -m pytest -o timeout=600 -n 2 --dist loadfile --no-loadscope-reorder -m '(e2e and not embedded) or kube' tests

e2e-clients: $(VENV)/.dev ## Run clients of others, as released, against strato up (installs them below ~/.cache/strato-clients).
	$(BIN)/python -m pytest -o timeout=1800 -m clients tests/clients

e2e-clients-slice: $(VENV)/.dev ## Run those that take seconds once they are installed.
	$(BIN)/python -m pytest -o timeout=600 -m 'clients and not slow' tests/clients

e2e-cluster: $(VENV)/.dev ## Run the end-to-end tests on the cluster of KUBECONFIG; it must have strato installed.
	@test -n "$$KUBECONFIG" || { echo "error: set KUBECONFIG to the cluster's kubeconfig"; exit 2; }
	STRATO_E2E_WORLD=cluster $(BIN)/python -m pytest -o timeout=600 -m 'e2e and not embedded' tests/e2e

e2e-debian: ## Type README and the pages on a Debian 12 with nothing else on it (needs root and debootstrap).
	tests/e2e/bare_debian.sh

differential: $(VENV)/.dev ## Send 10,000 generated requests to strato's API server and a real one, and compare the answers (needs Go).
	tests/e2e/kube/controlplane/build.sh && $(BIN)/python -m tests.differential $(DIFFERENTIAL)

judge-training: $(VENV)/.dev ## Run the same training jobs with Kubeflow's operators and with ours, and compare (needs Go).
	tests/e2e/kube/controlplane/build.sh && $(BIN)/python -m tests.judge $(JUDGE)

conformance: $(VENV)/.dev ## Run Kubernetes' conformance suite against strato up and write docs/conformance.md (needs root, Go).
	$(BIN)/python -m tests.conformance $(CONFORMANCE)

conformance-slice: $(VENV)/.dev ## Run sixty of its specs, which must pass.
	$(BIN)/python -m tests.conformance --slice

attack: $(VENV)/.dev ## Attack the software at full size: bodies, pods, disks, kills (hours).
	$(BIN)/python -m tests.attack

attack-slice: $(VENV)/.dev ## Run a small part of each attack (minutes).
	$(BIN)/python -m pytest -m attack tests/attack

chaos: $(VENV)/.dev ## Run whole clusters in virtual time under a seeded adversary: SEEDS=10000, CHAOS="--resume FILE".
	$(BIN)/python -m strato.testing.chaos --seeds $(or $(SEEDS),200) $(CHAOS)

mutate: $(VENV)/.dev ## Put 400 single faults into decision code and see that the tests find them (about half an hour).
	$(BIN)/python tools/mutate.py $(MUTATE)

chart: $(VENV)/.dev ## Check that Helm renders what strato install applies (needs helm, or Go to build it).
	@command -v helm >/dev/null || test -x $(CACHE)/strato-kube/bin/helm || \
		GOBIN=$(CACHE)/strato-kube/bin go install helm.sh/helm/v3/cmd/helm@v3.16.4
	$(BIN)/python -m pytest tests/cli/test_install.py

audit: $(VENV)/.base ## Check the locked dependencies against the public database of vulnerabilities.
	$(BIN)/python -m pip install --quiet --group supply
	$(BIN)/python tools/audit.py deploy/requirements.lock

lock: $(VENV)/.base ## Choose the dependencies of the image anew: versions, hashes and the list of what is in it (SBOM).
	$(BIN)/python -m pip install --quiet --group supply
	$(BIN)/python tools/lock.py

$(VENV)/.docs: $(VENV)/.dev mkdocs.yml
	$(BIN)/python -m pip install --quiet --group docs
	@touch $@

docs: $(VENV)/.docs ## Build the documentation into build/docs and check it: links, order, nothing from other hosts.
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	$(BIN)/python -m pytest tests/docs/test_site.py

bench: $(VENV)/.dev ## Run every benchmark; see benchmarks/README.md.
	$(BIN)/python -m benchmarks

bench-kube: $(VENV)/.dev ## Measure our parts on a real kube-apiserver (needs Go); PEER=volcano: Volcano beside them.
	@command -v go >/dev/null || { echo "make bench-kube: skipped, Go is not installed (https://go.dev/dl)"; exit 0; }; \
	tests/e2e/kube/controlplane/build.sh && $(BIN)/python -m benchmarks.kube $(if $(PEER),--peer $(PEER))

clean: ## Remove the virtual environment and caches.
	rm -rf $(VENV) .pythons dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
