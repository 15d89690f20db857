"""Keras on JAX and on PyTorch: its fit, callbacks and evaluation."""

import pytest
from jax_jobs import BREAK

from whyidle.model.roles import Role

BACKEND = """
import importlib.util, os, sys
os.environ["KERAS_BACKEND"] = "{backend}"
if not all(map(importlib.util.find_spec, ("keras", "{backend}"))):
    print("missing")
    sys.exit()
"""
JOB = """
import time
import keras
import numpy as np

class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.002)

keras.utils.set_random_seed(1)
x = np.ones((160, 8), "float32")
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
more = {"validation_data": (x, x[:, :1]), "callbacks": [Slow()], "verbose": 0}
print(model.fit(x, x[:, :1], batch_size=8, epochs=2, **more).history["loss"])
"""


@pytest.fixture(scope="module")
def printed():
    """What the job prints alone on a backend, once it is known."""
    return {}


def run_keras(run_job, backend, script, **options):
    job = run_job(BACKEND.format(backend=backend) + script, **options)
    if job.out == "missing\n":
        pytest.skip(f"Keras or {backend} is not installed")
    return job


@pytest.mark.real_processes("it starts a process")
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_fit_is_told_step_by_step(run_job, backend):
    job = run_keras(run_job, backend, JOB)
    assert not job.faults
    assert len(job.names(Role.OPTIMIZER)) == pytest.approx(40, abs=2)
    assert len(job.names(Role.EVALUATION)) >= 2
    assert len(job.names(Role.CALLBACK)) >= 40


DATASET = """
class Rows(keras.utils.PyDataset):
    def __len__(self):
        return 20

    def __getitem__(self, number):
        time.sleep(0.002)
        return x[:8], x[:8, :1]

print(model.fit(Rows(workers=WORKERS), epochs=2, callbacks=[Slow()], verbose=0).history["loss"])
"""


@pytest.mark.real_processes("it starts a process")
@pytest.mark.parametrize("workers", [1, 3])
def test_batches_of_a_dataset_and_reads_for_callbacks_are_recorded(run_job, workers):
    script = JOB.partition("more = ")[0] + DATASET.replace("WORKERS", str(workers))
    job = run_keras(run_job, "jax", script)
    assert not job.faults
    assert len(job.names(Role.BATCH_REQUEST)) == pytest.approx(40, abs=4)
    assert "pythonify_logs" in job.names(Role.SYNC)
    dataset = job.timeline.process.py_dataset
    assert (dataset.workers, bool(dataset.batches)) == (workers, True)


GENERATOR = """
def forever():
    while True:
        time.sleep(0.002)
        yield x[:8], x[:8, :1]

model.fit(forever(), steps_per_epoch=20, epochs=2, shuffle=False, verbose=0)
"""


@pytest.mark.real_processes("it starts a process")
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_generator_given_to_fit_is_known_and_waited_for(run_job, backend):
    job = run_keras(run_job, backend, JOB.partition("more = ")[0] + GENERATOR)
    assert not job.faults
    assert len(job.names(Role.OPTIMIZER)) == pytest.approx(40, abs=2)
    assert len(job.names(Role.BATCH_REQUEST)) == pytest.approx(40, abs=4)
    dataset = job.timeline.process.py_dataset
    assert dataset.making.endswith(": forever")
    assert not dataset.workers


FAULTS = {
    "jax attaching": ("jax", "core.hook_registry:HookRegistry.patch_function"),
    "jax evaluation": ("jax", "core.span_hooks:mark_place"),
    "jax callback": ("jax", "core.events:Events.add_span"),
    "torch attaching": ("torch", "frameworks.keras_hooks:_wrap_apply"),
    "torch step": ("torch", "core.events:Events.other_stepped"),
    "torch callback": ("torch", "core.events:Events.add_span"),
}


@pytest.mark.parametrize(("backend", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_fault_of_a_hook_never_reaches_a_fit(run_job, printed, backend, fault):
    if backend not in printed:
        printed[backend] = run_keras(run_job, backend, JOB, watched=False).out
    job = run_keras(run_job, backend, BREAK.format(package=backend, fault=fault) + JOB)
    assert job.out == printed[backend]
    assert "injected" in job.faults
