# A fresh machine needs Python 3.10 or later, with its venv module, and nothing else.

PYTHON ?= python3
VENV ?= .venv
DEMO ?= .demo
SITE ?= .site
SERVICES ?= .services
BENCH ?=
# The build of PyTorch without CUDA: some tests record real traces on the CPU. Where the package
# index has no such build those tests are skipped, rather than gigabytes of CUDA downloaded.
TORCH ?= torch==2.13.0+cpu

bin = $(VENV)/bin
# three processes on two cores: tests wait for real processes a third of their time
pytest = $(bin)/python -m pytest -n 3 --dist worksteal --durations=20
pip = -m pip --disable-pip-version-check -qq install --no-input

.PHONY: help release demo watch fix man test test-unit test-probe test-processes test-live clinic check format docs
.PHONY: test-frameworks test-tensorflow test-jax test-frameworks-oldest test-services site pictures bench gpu clean

help:  ## list what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | \
	  expand -t 24

demo: $(DEMO)/installed  ## explain a recording, watch a small training job and fix another
	@$(DEMO)/bin/python -m whyidle.testing.demo $(DEMO)/out/trace.json.gz >/dev/null
	$(DEMO)/bin/whyidle explain $(DEMO)/out/trace.json.gz --store $(DEMO)/out/store \
	  --html $(DEMO)/out/why.html
	@echo "pictures: file://$(CURDIR)/$(DEMO)/out/why.html"
	@$(DEMO)/bin/python -c 'import torch, PIL' 2>/dev/null && $(MAKE) -s watch fix || \
	  echo "no '$(TORCH)' or no Pillow in your package index: nothing was trained and watched"

watch:
	@echo; echo "Watching a real job: a small network that trains on JPEG photos."
	@$(DEMO)/bin/python examples/photos/make.py $(DEMO)/photos
	$(DEMO)/bin/whyidle run --store $(DEMO)/out/store --html $(DEMO)/out/run.html \
	  $(DEMO)/bin/python examples/photos/train.py --photos $(DEMO)/photos --out $(DEMO)/out/model.pt
	@echo "pictures: file://$(CURDIR)/$(DEMO)/out/run.html"

fix:
	@echo; echo "Fixing a job with a slow disk: isolated trials for 90 seconds."
	@rm -rf $(DEMO)/far && mkdir $(DEMO)/far && cp examples/far/train.py $(DEMO)/far
	cd $(DEMO)/far && ../bin/whyidle fix --budget 90s --html fixed.html ../bin/python train.py
	@echo "pictures: file://$(CURDIR)/$(DEMO)/far/fixed.html"

test: check  ## everything: lint, types, tests; failed tests are retried alone, see CONTRIBUTING.md
	$(pytest) || { test $$? -eq 1 && echo "retrying failed tests alone:" && \
	  $(bin)/python -m pytest --second-try --last-failed --last-failed-no-failures none; }

test-unit: $(VENV)/installed  ## tests without a framework's probe and without real processes
	$(pytest) -m 'not live and not services and not real_processes' --ignore=tests/probe --ignore=tests/emulator

test-probe: $(VENV)/installed  ## the probe and the emulated device inside a real framework
	$(pytest) tests/probe tests/emulator

test-processes: $(VENV)/installed  ## tests that start real processes
	$(pytest) -m 'real_processes and not live and not services'

# kmock's plug-in for pytest needs a package that it does not install; its server is used without it
test-services: $(SERVICES)/installed  ## real servers, schedulers, launchers and trackers, where they can be had
	@$(DEBIAN_PACKAGES)
	$(SERVICES)/bin/python -m pytest -p no:kmock -n 2 --dist worksteal -m services -rs || { test $$? -eq 1 && \
	  $(SERVICES)/bin/python -m pytest -p no:kmock --second-try -m services --last-failed \
	  --last-failed-no-failures none; }

test-live: $(VENV)/installed .venv-trainers/installed  ## real jobs whose times are judged; needs an idle machine
	$(pytest) -m live
	.venv-trainers/bin/python -m pytest -m live tests/live/test_trainers.py

test-frameworks: test-tensorflow test-jax  ## the probe inside the newest TensorFlow, Keras and JAX

test-tensorflow: .venv-tensorflow/installed
	.venv-tensorflow/bin/python -m pytest --frameworks -m tensorflow tests/with_tensorflow

test-jax: .venv-jax/installed
	.venv-jax/bin/python -m pytest --frameworks -m jax tests/with_jax

# the oldest supported: TensorFlow 2.15 with Keras 2, TensorFlow 2.16 with Keras 3.3, JAX 0.4.30
test-frameworks-oldest: .venv-tensorflow-2.15/installed .venv-tensorflow-2.16/installed
test-frameworks-oldest: .venv-jax-0.4.30/installed
	.venv-jax-0.4.30/bin/python -m pytest --frameworks -m jax tests/with_jax
	.venv-tensorflow-2.15/bin/python -m pytest --frameworks -m tensorflow tests/with_tensorflow
	.venv-tensorflow-2.16/bin/python -m pytest --frameworks -m tensorflow tests/with_tensorflow

.venv-tensorflow/installed: FRAMEWORK = tensorflow
.venv-tensorflow-2.15/installed: FRAMEWORK = tensorflow==2.15.* 'numpy<2'
.venv-tensorflow-2.16/installed: FRAMEWORK = tensorflow==2.16.* keras==3.3.*
.venv-jax/installed: FRAMEWORK = jax optax flax keras
.venv-jax/installed: MORE = $(TORCH)
.venv-jax-0.4.30/installed: FRAMEWORK = jax==0.4.30 jaxlib==0.4.30 'optax<0.2.4' 'numpy<2.1'
.venv-trainers/installed: FRAMEWORK = $(TORCH) lightning transformers accelerate
.venv-%/installed: pyproject.toml
	$(call environment,.venv-$*)
	@.venv-$*/bin/python $(pip) -e . 'pytest>=8' $(FRAMEWORK)
	@test -z "$(MORE)" || .venv-$*/bin/python $(pip) "$(MORE)" 2>/dev/null || \
	  echo "no $(MORE) in your package index: Keras on PyTorch is skipped"
	@touch $@

clinic: $(VENV)/installed  ## a few sick and healthy jobs with known truth, against the recorded floor
	$(bin)/python -m clinic run --fixed-subset

check: $(VENV)/installed  ## lint, types and documentation only
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy
	$(bin)/python docs/build.py --check

format: $(VENV)/installed  ## format the sources
	$(bin)/ruff check --fix .
	$(bin)/ruff format .

docs: $(VENV)/installed  ## generate the pages that are made from source
	$(bin)/python docs/build.py

site: $(SITE)/installed  ## build the documentation site in build/site
	$(SITE)/bin/mkdocs build --strict --quiet
	@echo "the site: file://$(CURDIR)/build/site/index.html"

man: $(VENV)/installed  ## make the manual page from the help: build/whyidle.1
	@mkdir -p build
	$(bin)/argparse-manpage --module whyidle.cli._app --function parser --project-name whyidle \
	  --manual-title whyidle --format single-commands-section --output build/whyidle.1

pictures: $(VENV)/installed  ## draw the pictures of the README again; needs Chromium
	$(bin)/python docs/pictures.py

bench: $(VENV)/installed  ## measure the cost of whyidle; TRACES=FOLDER adds real traces
	@mkdir -p build/bench
	@$(bin)/python -m whyidle.testing.demo build/bench/seed.json
	@$(bin)/python bench/grow.py build/bench/seed.json build/bench/grown.json --megabytes 50
	$(bin)/python bench/costs.py build/bench/grown.json $(BENCH)
	$(if $(TRACES),$(bin)/python bench/traces.py $(TRACES))
	$(if $(TRACES),$(bin)/python bench/predictions.py $(TRACES))

gpu:  ## prove whyidle on this machine's GPU, or rehearse without one; GPU='--stage doctor' for a part
	@if $(PYTHON) -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; \
	then $(PYTHON) -m bench.gpu $(GPU); \
	else $(MAKE) -s $(VENV)/installed && $(bin)/python -m bench.gpu $(GPU); fi

release: .release/installed  ## build and check wheel and source distribution, and try the wheel alone
	.release/bin/python packaging/release.py $(RELEASE)

.release/installed:
	$(call environment,.release)
	@.release/bin/python $(pip) 'build>=1.2' 'twine>=5'
	@touch $@

clean:  ## remove build products and environments
	rm -rf $(VENV) .venv-* $(DEMO) $(SITE) .services .release build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(DEMO)/installed: pyproject.toml
	$(call environment,$(DEMO))
	@$(DEMO)/bin/python $(pip) -e .
	@$(DEMO)/bin/python $(pip) '$(TORCH)' pillow 2>/dev/null || true
	@touch $@

$(VENV)/installed: pyproject.toml
	$(call environment,$(VENV))
	@$(bin)/python $(pip) -e '.[dev]'
	@$(bin)/python $(pip) '$(TORCH)' 2>/dev/null || \
	  echo "no $(TORCH) in your package index: tests that record with PyTorch are skipped"
	@touch $@

$(SITE)/installed: pyproject.toml
	$(call environment,$(SITE))
	@$(SITE)/bin/python $(pip) -e '.[docs]'
	@touch $@

# Packages of trackers on top of the main environment, which they must not change.
$(SERVICES)/installed: $(VENV)/installed
	$(call environment,$(SERVICES))
	@$(SERVICES)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $(SERVICES)/own
	@echo "import site; site.addsitedir('$$($(bin)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')')" \
	  > "$$(cat $(SERVICES)/own)/main-environment.pth"
	@$(SERVICES)/bin/python $(pip) mlflow-skinny tensorboard wandb pyarrow h5py 2>/dev/null || \
	  echo "not all trackers and formats are in your package index: their tests are skipped"
	@$(SERVICES)/bin/python $(pip) kmock lightkube playwright 'ray[default,tune]' 2>/dev/null || \
	  echo "not all clients of clusters are in your package index: their tests are skipped"
	@touch $@

define DEBIAN_PACKAGES
{ command -v promtool && command -v slurmctld && command -v slurmdbd && command -v chromium; } >/dev/null || \
  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && { apt-get update; RUNLEVEL=1 \
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
  prometheus slurmctld slurmd slurm-client slurmdbd munge mariadb-server chromium; } >/dev/null 2>&1; } || \
  echo "not root on Debian: tests of Prometheus and Slurm are skipped"
endef

define environment
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
  { echo "Python 3.10 or later is needed; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
@echo "making $(1) (once)"
@$(PYTHON) -m venv $(1) || \
  { echo "Python's venv module is missing (Debian, Ubuntu: apt install python3-venv)"; exit 1; }
endef
