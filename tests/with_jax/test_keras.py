"""Keras on JAX: its fit, callbacks and evaluation. Steps and waits are those of JAX."""

import importlib.util
import os

import pytest

from whyidle.model.roles import Role

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("keras") is None and "WHYIDLE_JAX_PYTHON" not in os.environ,
    reason="Keras is not installed",
)
JOB = """
import os, time
os.environ["KERAS_BACKEND"] = "jax"
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


@pytest.mark.real_processes("it starts a process")
def test_a_fit_is_told_step_by_step(run_job):
    job = run_job(JOB)
    assert not job.faults
    assert len(job.names(Role.OPTIMIZER)) == pytest.approx(40, abs=2)
    assert len(job.names(Role.EVALUATION)) >= 2
    assert len(job.names(Role.CALLBACK)) >= 40
