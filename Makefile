# Needs Python 3.11 or newer and make; installs everything else into this folder.
PYTHON ?= python3
UV := $(or $(shell command -v uv),.cache/uv/bin/uv)
RUN := $(UV) run --locked --quiet
# Local stacks need the same ports: three run at once, which wait half of the time on two cores, where this user may make network namespaces (root), one after the other elsewhere.
SIDE_BY_SIDE = $(shell unshare --net true 2>/dev/null && printf %s '-n 3 --dist worksteal -p tests.own_network')

.PHONY: help run test unit programs manifests rules docs guards bench bench-fleet simulate explore differential fleet nodes hosts hosts-end e2e lint format renew clean scale
.DEFAULT_GOAL := help

help: ## Show this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):[^#]*## /\1\t/' | expand -t 12

run: programs ## Run a demo control plane on this machine: three nodes, shown live until Ctrl-C
	@$(RUN) quorate run

test: lint programs ## Run everything that CI runs
	$(RUN) pytest -n 2 --dist worksteal -m "not integration and not fleet and not e2e" tests
	$(RUN) python -m pytest $(SIDE_BY_SIDE) -m integration tests

unit: .venv/ready ## Run the tests that need no programs, in less than three minutes: for between two edits
	$(RUN) pytest -n 2 --dist worksteal -m "not thorough and not integration and not fleet and not e2e" tests

programs: .venv/ready ## Build the pinned programs (Kubernetes, etcd, Cluster API) into .bin
	@$(RUN) python -c "import sys; from quorate.local.programs import main; sys.exit(main([]))"

manifests: .venv/ready ## Generate config/ from the types
	$(RUN) python -m quorate.clusterapi.api.crd config/crd
	$(RUN) python -m quorate.clusterapi.api.rbac config/rbac

rules: .venv/ready ## Generate docs/rules.md, docs/exit-codes.md, docs/schema.json and docs/architecture.svg from the code
	$(RUN) python -m quorate.core > docs/rules.md
	$(RUN) python -m quorate.cli.exit_codes > docs/exit-codes.md
	$(RUN) python -m quorate.cli.schema > docs/schema.json
	$(RUN) python -m tests.architecture > docs/architecture.svg

docs: .venv/ready ## Build the documentation as a site in .cache/site; fails on a dead link or a page without a place
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build

guards: .venv/ready ## Generate docs/guards.md from the mutation test
	$(RUN) python -m tests.proof.guards > docs/guards.md

bench: programs ## Compare upstream's provider and quorate, step by step (about an hour)
	$(RUN) python tests/bench lifecycle

bench-fleet: programs ## Compare both with 10 and 30 clusters at once (about two hours)
	$(RUN) python tests/bench fleet

scale: programs ## Measure 200 and 1,000 control planes in one process: starts, memory, CPU at rest, reactions (about an hour and a half)
	$(RUN) python tests/scale

simulate: .venv/ready ## Simulate control planes with faults, in virtual time; LASTING=600 for ten minutes
	$(RUN) quorate simulate --seconds $(or $(LASTING),60)

explore: .venv/ready ## Try every history of a few control planes with one fault, of some with two, and as much more as an hour allows (hours)
	$(RUN) python tests/explore

differential: programs ## Compare upstream's program and quorate on 10,000 random objects (two minutes)
	$(RUN) python tests/differential conversions --count 10000 --seed $(or $(SEED),1)

fleet: programs ## Take fifty clusters at once from creation to deletion, without an error (about ten minutes)
	$(RUN) pytest -m fleet tests/bench

nodes: .venv/ready ## Build what real kubeadm nodes need, once: programs, packages, images (25 minutes with nothing cached; needs root)
	@$(RUN) python -m tests.e2e.nodes build

hosts: .venv/ready ## Start three bare hosts, with a manifest to try `quorate plan` and `quorate apply` on
	@$(RUN) python -m tests.e2e.nodes hosts

hosts-end: .venv/ready ## Remove the hosts of `make hosts`, and those that killed tests or --keep-hosts left running
	@$(RUN) python -m tests.e2e.nodes end

e2e: programs ## Test both modes on real kubeadm nodes, scenario by scenario (make nodes first)
	$(RUN) pytest -m e2e --durations=0 --durations-min=1 tests/e2e tests/scale

lint: .venv/ready ## Check formatting, lint, types and the import contracts
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) mypy
	$(RUN) lint-imports

format: .venv/ready ## Format, and fix what can be fixed
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

renew: $(UV) ## Update what is pinned by hash to the newest versions: uv.lock, and uv and Go under tools
	$(UV) lock --upgrade
	for tool in uv go; do $(UV) pip compile --quiet --upgrade --universal --generate-hashes --no-header --python-version 3.11 \
		tools/$$tool/requirements.in -o tools/$$tool/requirements.txt || exit 1; done

clean: ## Delete everything that was built, programs included
	rm -rf .venv .bin .cache .local .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/ready: pyproject.toml uv.lock | $(UV)
	@$(UV) sync --locked --quiet --compile-bytecode || \
		{ echo "error: the Python environment could not be installed from uv.lock: connect to the network and try again" >&2; exit 3; }
	@$(RUN) python -m compileall -q src
	@touch $@

.cache/uv/bin/uv:
	@echo "installing uv"
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --require-hashes --no-deps \
		--only-binary :all: --target .cache/uv -r tools/uv/requirements.txt || \
		{ echo "error: uv is not on the PATH and pip could not install it: connect to the network (Debian: apt install python3-pip), or put uv on the PATH" >&2; exit 3; }
