# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
INSTALL := -m pip install --quiet --disable-pip-version-check
PIP    := $(BIN)/python $(INSTALL) -c constraints.txt
# every file by its hash; PyTorch alone is held by its version (scripts/lock.py)
LOCKED := $(INSTALL) --require-hashes --no-deps --no-build-isolation
UV_LOCKED := $(BIN)/uv pip install --quiet --require-hashes --no-deps

.PHONY: demo demo-local demo-service demo-tuning demo-plan demo-console demo-slurm demo-kubernetes test test-full test-gpu gpu-wheels postgres slurm compiler docker shells chromium prometheus bubblewrap podman isolation check bench bench-tuning tuning-peers clean lock golden dist image console

DEMO_OUT := $(CURDIR)/runs/torch-ddp
demo: demo-local demo-service

demo-local: $(VENV)/.demo
	@rm -rf $(DEMO_OUT)
	@cd examples/torch-ddp && $(CURDIR)/$(BIN)/trainshed ai-platform local train --config config.yaml \
	    --module-name trainer.task --package-path trainer --job-dir $(DEMO_OUT)
	@echo && echo "the learning curve is a picture: runs/torch-ddp/learning-curve.png"

# the same job through the service: a server of its own, a submit, the log as it comes, the end
demo-service: $(VENV)/.demo
	@PATH="$(CURDIR)/$(BIN):$$PATH" examples/service/demo.sh $(CURDIR)/runs/service

# a study of 24 trials of a real trainer, two at a time; a minute or two
demo-tuning: $(VENV)/.demo
	@PATH="$(CURDIR)/$(BIN):$$PATH" examples/tuning/demo.sh $(CURDIR)/runs/tuning
	@echo && echo "the report is a page for any browser: runs/tuning/digits.html"

# how long a trainer's steps take here, and what more hosts would bring; a minute
demo-plan: $(VENV)/.demo
	@PATH="$(CURDIR)/$(BIN):$$PATH" examples/planning/demo.sh $(CURDIR)/runs/planning
	@echo && echo "the picture: runs/planning/plan.png; the page for any browser: runs/planning/plan.html"

# a server with jobs of every state and a study, to look at in a browser; until Ctrl+C
demo-console: $(VENV)/.demo
	@$(BIN)/python examples/console/demo.py $(CURDIR)/runs/console

# a gang on a Slurm of its own, real daemons on this machine; needs root
demo-slurm: $(VENV)/.demo slurm
	@PATH="$(CURDIR)/$(BIN):$$PATH" examples/slurm/demo.sh $(CURDIR)/runs/slurm

# a gang on the Kubernetes cluster of the tests, whose pods are processes of this machine; needs root
demo-kubernetes: $(VENV)/.test
	@PATH="$(CURDIR)/$(BIN):$$PATH" examples/kubernetes/demo.sh $(CURDIR)/runs/kubernetes

# lint, format, types, import contracts, and at least one test of everything that is promised
test: $(VENV)/.test postgres slurm docker bubblewrap compiler shells chromium prometheus
	@$(BIN)/python scripts/suite.py

# and the rest: every test, at full length; hundreds of cancels, twenty kill points, minutes without
# a database, a thousand random examples of each property
test-full: $(VENV)/.test .venv-gs/.torch .venv-callers/.done .venv-airflow/.done console/node_modules/.done postgres slurm docker bubblewrap compiler shells chromium prometheus
	@$(BIN)/python scripts/suite.py --full

# all that touches a GPU, on this machine's, in ten minutes; without one it says so and is well.
# Nothing is fetched: packages are those of PYTHON, and wheels in the folder GPU_WHEELS
GPU_OUT ?= build/gpu
GPU_SECONDS ?= 540
test-gpu:
	@$(PYTHON) scripts/gpu_suite.py --out $(GPU_OUT) --seconds $(GPU_SECONDS) $(if $(GPU_WHEELS),--wheels $(GPU_WHEELS))

# the wheels for a machine without a network, on one that has one
GPU_PYTHON ?= 3.12
GPU_PLATFORMS := $(foreach libc,2_17 2_24 2_27 2_28 2_31 2_34,--platform manylinux_$(libc)_x86_64) --platform manylinux2014_x86_64
gpu-wheels: $(VENV)/bin/python
	@test -n "$(GPU_WHEELS)" || { echo "say where: make gpu-wheels GPU_WHEELS=FOLDER"; exit 1; }
	$(BIN)/python -m pip download --quiet --no-deps --require-hashes --only-binary=:all: $(GPU_PLATFORMS) \
	    --implementation cp --python-version $(GPU_PYTHON) -d $(GPU_WHEELS) -r locks/gpu.txt

# the tests stand a driver of their own in for NVIDIA's; without a compiler they skip and say so
compiler:
	@command -v cc > /dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev > /dev/null; } \
	    || echo "there is no C compiler (apt install gcc libc6-dev): the tests of GPUs will skip"

# the tests start a server of their own from Debian's package; without it they skip and say so
postgres:
	@ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq postgresql; } \
	    || echo "PostgreSQL is not installed (apt install postgresql): its tests will skip"

# the tests start a daemon and a registry of their own from Debian's packages; without them they skip and say so
DOCKER := docker.io docker-registry
docker:
	@{ command -v dockerd && command -v docker-registry; } > /dev/null \
	    || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq --no-install-recommends $(DOCKER) > /dev/null; } \
	    || echo "not all is installed (apt install $(DOCKER)): the tests of containers and of registries will skip"

# the tests start a cluster of their own from Debian's packages; without them they skip and say so
SLURM := slurmctld slurmd slurm-client munge iproute2
slurm:
	@{ PATH="$$PATH:/usr/sbin" command -v slurmctld && PATH="$$PATH:/usr/sbin" command -v slurmd && command -v sbatch && PATH="$$PATH:/usr/sbin" command -v munged && PATH="$$PATH:/sbin" command -v ip; } > /dev/null \
	    || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq --no-install-recommends $(SLURM) > /dev/null; } \
	    || echo "Slurm is not installed (apt install $(SLURM)): its tests will skip"

# completion is typed in real shells; those that are not there are skipped and said so
SHELLS := zsh fish man-db
shells:
	@{ command -v zsh && command -v fish && command -v man; } > /dev/null \
	    || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq --no-install-recommends $(SHELLS) > /dev/null; } \
	    || echo "shells are not installed (apt install $(SHELLS)): tests of completion will skip"

# the tests open the console in a real browser; without it they skip and say so
CHROMIUM := chromium fonts-dejavu-core
chromium:
	@command -v chromium > /dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq --no-install-recommends $(CHROMIUM) > /dev/null; } \
	    || echo "Chromium is not installed (apt install $(CHROMIUM)): the tests of the console in a browser will skip"

# promtool checks the rules and alerts of deploy/observability
prometheus:
	@command -v promtool > /dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus > /dev/null; } \
	    || echo "promtool is not installed (apt install prometheus): the tests of alerts will skip"

# the sandbox of servers that are no root, and networks of jobs; without them their tests skip and say so
WALLS := bubblewrap slirp4netns
bubblewrap:
	@{ command -v bwrap && command -v slirp4netns; } > /dev/null \
	    || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq --no-install-recommends $(WALLS) > /dev/null; } \
	    || echo "not all is installed (apt install $(WALLS)): the tests of the sandbox and of networks of jobs will skip"

# containers of a podman in a folder of the tests, as root and rootless
PODMAN := podman netavark runc uidmap slirp4netns
podman:
	@{ command -v podman && command -v newuidmap && command -v slirp4netns; } > /dev/null \
	    || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq --no-install-recommends $(PODMAN) > /dev/null; } \
	    || echo "podman is not installed (apt install $(PODMAN)): its tests of containers will skip"

# a hostile trainer in every mode that the machine allows, as a program and as a package that is built
isolation: $(VENV)/.test docker podman bubblewrap
	@TRAINSHED_CHAOS=full $(BIN)/python -m pytest -q -rs tests/isolation
	@$(BIN)/python tests/isolation/table.py

# the quick half: no model is trained, nothing takes longer than a few seconds
check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -m "not slow"

# all that take minutes, then one table; build/benchmarks.json has every value
bench: $(VENV)/.test
	$(BIN)/python -m benchmarks all --json build/benchmarks.json

# half an hour; searches are kept, so that it may be stopped and started again. Those of other libraries
# are in benchmarks/tuning/peer_searches; `make tuning-peers`, then `--peers NAMES`, runs and adds the missing ones
bench-tuning: $(VENV)/.test
	$(BIN)/python -m benchmarks early-stopping
	$(BIN)/python -m benchmarks early-rungs --seeds 2 --orders 8 --keep build/learning-curves.jsonl
	$(BIN)/python -m benchmarks tuning --costs
	$(BIN)/python -m benchmarks tuning --keep build/tuning-searches.jsonl

# the libraries that searches are compared with, each in an environment of its own: they exclude each other
TUNING_PEERS := ax smac vizier
tuning-peers: $(TUNING_PEERS:%=.venv-%/.done)
.venv-%/.done: benchmarks/tuning/requirements-%.txt
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python $(INSTALL) -r $<
	@touch $@

# new versions and their hashes, after a change of constraints.txt, pyproject.toml or a list of Google's clients
lock: $(VENV)/.demo
	$(BIN)/python scripts/lock.py

golden: $(VENV)/.test
	UPDATE_GOLDEN=1 $(BIN)/python -m pytest -q -m "not slow"

# both distributions, each wheel from its source distribution: dist/ has all that is published
dist: $(VENV)/.demo
	rm -rf dist
	$(BIN)/uv build --quiet --python $(BIN)/python --out-dir dist .
	$(BIN)/uv build --quiet --python $(BIN)/python --out-dir dist trainer
	@ls dist

# the server's image, which deploy/helm/trainshed runs; needs a docker daemon (or DOCKER_CLIENT=podman)
IMAGE ?= trainshed:$(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/trainshed/__init__.py)
DOCKER_CLIENT ?= docker
image: dist
	$(DOCKER_CLIENT) build -f deploy/Dockerfile $(IMAGE_FLAGS) -t $(IMAGE) .
	@echo "push it to a registry of the cluster, and give its name to the chart: image.repository, image.tag"

# the pages at /console/: Node comes from a wheel, packages from console/package-lock.json without their scripts
NODE := .venv-node/bin
# what is made: src/trainshed/api/console/static, which is checked in
console: console/node_modules/.done
	@cd console && PATH="$(CURDIR)/$(NODE):$$PATH" && node gen_types.mjs && npx --no-install tsc --noEmit && node build.mjs

.venv-node/.done: locks/build.txt locks/node.txt
	$(PYTHON) -m venv .venv-node
	.venv-node/bin/python $(LOCKED) -r locks/build.txt
	.venv-node/bin/python $(LOCKED) -r locks/node.txt
	@touch $@

console/node_modules/.done: .venv-node/.done console/package-lock.json console/.npmrc
	cd console && PATH="$(CURDIR)/$(NODE):$$PATH" npm ci --silent
	@touch $@

clean:
	rm -rf console/node_modules console/build .venv-node $(VENV) .venv-google .venv-google-old .venv-gs .venv-callers .venv-airflow .venv-gpu $(TUNING_PEERS:%=.venv-%) build dist runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml setup.py src/trainshed/__init__.py trainer/pyproject.toml constraints.txt locks/build.txt locks/demo.txt
	@echo "installing trainshed, its server, PyTorch and scikit-learn into $(VENV) (once; some minutes)"
	$(BIN)/python $(LOCKED) -r locks/build.txt
	$(BIN)/python $(LOCKED) -r locks/demo.txt
	$(PIP) torch
	$(PIP) --no-deps --no-build-isolation -e trainer -e .
	@$(BIN)/python -m compileall -q src trainer/src # as pip does for all that is not editable
	@touch $@

# Google's own clients, against which the generated wire files are checked; they pin what others need
.venv-google/.done: locks/build.txt locks/google-clients.txt
	$(PYTHON) -m venv .venv-google
	.venv-google/bin/python $(LOCKED) -r locks/build.txt
	.venv-google/bin/python $(LOCKED) -r locks/google-clients.txt
	@touch $@

# what jobs import that read and write gs://, as the images of Google have it
.venv-gs/.done: locks/build.txt locks/gs.txt
	$(PYTHON) -m venv .venv-gs
	.venv-gs/bin/python $(LOCKED) -r locks/build.txt
	.venv-gs/bin/python $(LOCKED) -r locks/gs.txt
	@touch $@

# a gigabyte that no trainer of make test imports
.venv-gs/.torch: .venv-gs/.done constraints.txt
	.venv-gs/bin/python $(INSTALL) -c constraints.txt torch
	@touch $@

# an older SDK that many scripts are pinned to
.venv-google-old/.done: locks/build.txt locks/google-clients-old.txt
	$(PYTHON) -m venv .venv-google-old
	.venv-google-old/bin/python $(LOCKED) -r locks/build.txt
	.venv-google-old/bin/python $(LOCKED) -r locks/google-clients-old.txt
	@touch $@

# programs of others that submit jobs: two gigabytes, for make test-full alone
.venv-callers/.done .venv-airflow/.done: .venv-%/.done: locks/%.txt $(VENV)/.demo
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python .venv-$*
	$(UV_LOCKED) --python .venv-$*/bin/python -r $<
	@touch $@

$(VENV)/.test: $(VENV)/.demo .venv-google/.done .venv-google-old/.done .venv-gs/.done locks/test.txt
	$(BIN)/python $(LOCKED) -r locks/test.txt
	@touch $@
