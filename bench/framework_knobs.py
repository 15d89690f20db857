"""One knob of TensorFlow, Keras or JAX: a job as written, under a plan that sets the knob, and with
the cure written into it.

Run it in an environment with the framework, on a machine that does nothing else::

    .venv-tensorflow/bin/python bench/framework_knobs.py steps [--rounds 3]

The three are run in turn in processes of their own, all of them watched; each job measures its own
steps. Prints a row of a table: medians over the rounds, with
the range, and the loss that the job prints last.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

BOOT = Path(__file__).parents[1] / "src/whyidle/probe/boot"
KERAS = """
import json, os, statistics, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(1)

class Epochs(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.took, self.loss = [], None

    def on_epoch_begin(self, epoch, logs=None):
        self.begin = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.took.append((time.perf_counter() - self.begin) / STEPS)
        self.loss = logs["loss"]

def report(took, loss):
    print(json.dumps({"ms": 1e3 * statistics.median(took[1:]), "loss": float(loss)}))
"""
FIT = """
epochs = Epochs()
net.fit(data, epochs=4, verbose=0, callbacks=[epochs])
report(epochs.took, epochs.loss)
"""
SMALL = """
STEPS, ROWS = 200, 16
x = np.random.rand(STEPS * ROWS, 8).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x.sum(1))).batch(ROWS)
layers = [keras.layers.Dense(64, activation="relu") for _ in range(2)]
net = keras.Sequential([keras.layers.Input((8,)), *layers, keras.layers.Dense(1)])
net.compile("adam", "mse")
"""
SHARDS = """
STEPS = 50

def read(i):
    time.sleep(0.004)  # a slow store
    return np.float32(i)

def shard(i):
    return tf.data.Dataset.range(25).map(lambda j: tf.numpy_function(read, [i + j], tf.float32))

data = tf.data.Dataset.range(16).interleave(shard, cycle_length=4)
data = data.map(lambda x: (tf.reshape(x, [1]), tf.reshape(x, [1]))).batch(8)
data = data.apply(tf.data.experimental.assert_cardinality(STEPS))
net = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
net.compile(keras.optimizers.SGD(1e-4), "mse")
"""
WIDE = """
STEPS, ROWS = 10, 64
x = np.random.rand(STEPS * ROWS, 512).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x.sum(1))).batch(ROWS)
layers = [keras.layers.Dense(1024, activation="relu") for _ in range(2)]
net = keras.Sequential([keras.layers.Input((512,)), *layers, keras.layers.Dense(1)])
net.compile(keras.optimizers.SGD(1e-4), "mse")
"""
POINTWISE = """
STEPS, ROWS = 10, 64

class Waves(keras.layers.Layer):
    def call(self, x):
        for number in range(12):
            x = x + 0.1 * keras.ops.sigmoid(x * (number + 1)) - 0.05
        return x

x = np.random.rand(STEPS * ROWS, 64).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x.sum(1))).batch(ROWS)
layers = [keras.layers.Dense(1024), Waves(), keras.layers.Dense(1)]
net = keras.Sequential([keras.layers.Input((64,)), *layers])
net.compile(keras.optimizers.SGD(1e-3), "mse")
"""
BATCHES = """
STEPS, ROWS = 8, 16
x = np.random.rand(STEPS * ROWS, 8).astype("float32")
y = x.sum(1, keepdims=True)
net = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(64), keras.layers.Dense(1)])
net.compile(keras.optimizers.SGD(0.01), "mse")

def train(x, y):
    return net.train_on_batch(x, y)

took = []
for epoch in range(4):
    begin, losses = time.perf_counter(), []
    for row in range(0, len(x), ROWS):
        losses.append(float(train(x[row : row + ROWS], y[row : row + ROWS])))
    took.append((time.perf_counter() - begin) / STEPS)
squares = (net(x) - y) ** 2
report(took, tf.reduce_mean(squares))
"""
TAPE = """
optimizer = keras.optimizers.SGD(0.01)

@tf.function
def train(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((net(x) - y) ** 2)
    gradients = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(gradients, net.trainable_variables))
    return loss
"""
CACHED = """
import json, statistics, time
import jax, jax.numpy as jnp, numpy as np

x = np.linspace(0, 1, 64 * 128, dtype=np.float32).reshape(64, 128)
weights = [jnp.eye(128) * 0.9 for _ in range(12)]

def compute_loss(weights, x):
    out = x
    for w in weights:
        out = jnp.tanh(out @ w)
    return ((out - x) ** 2).mean()

def define():
    @jax.jit
    def train(weights, x):
        loss, grads = jax.value_and_grad(compute_loss)(weights, x)
        return [w - 0.1 * g for w, g in zip(weights, grads)], loss
    return train

took = []
for step in range(12):
    begin = time.perf_counter()
    train = define()
    weights, loss = train(weights, x)
    loss = float(loss)
    took.append(time.perf_counter() - begin)
print(json.dumps({"ms": 1e3 * statistics.median(took[1:]), "loss": loss}))
"""
EAGER = "tf.config.run_functions_eagerly(True)\n"


class Case(NamedTuple):
    """A job, what the plan sets, and the replacement in its text that is the cure by hand."""

    job: str
    edits: dict[str, Any]
    old: str
    new: str


CASES = {
    "steps": Case(
        KERAS + SMALL + FIT,
        {"keras.steps_per_execution": 20},
        '"adam", "mse"',
        '"adam", "mse", steps_per_execution=20',
    ),
    "interleave": Case(
        KERAS + SHARDS + FIT,
        {"tfdata.interleave_calls": 4, "tfdata.pool": 4},
        "cycle_length=4",
        "cycle_length=4, num_parallel_calls=4",
    ),
    "policy": Case(
        KERAS + WIDE + FIT,
        {"autocast.dtype": "bfloat16", "autocast.grad_scaler": False},
        "STEPS, ROWS",
        'keras.config.set_dtype_policy("mixed_bfloat16")\nSTEPS, ROWS',
    ),
    "xla": Case(
        KERAS + POINTWISE + FIT,
        {"model.compile": True},
        '(1e-3), "mse"',
        '(1e-3), "mse", jit_compile=True',
    ),
    "train_on_batch": Case(
        KERAS + BATCHES, {"keras.train_on_batch": True}, "\ntook = []", TAPE + "\ntook = []"
    ),
    "functions_eager": Case(
        KERAS + EAGER + BATCHES.replace("\ntook = []", TAPE + "\ntook = []", 1),
        {"tf.functions_eager": False},
        EAGER,
        "",
    ),
    "compilation_cache": Case(
        CACHED,
        {"jax.compilation_cache": "kept"},
        "    train = define()\n",
        "    train = define() if step == 0 else train\n",
    ),
}
"""name of a knob -> its job"""


def run_job(folder: Path, text: str, edits: dict[str, Any]) -> dict[str, float]:
    """Run a watched job; return its step (ms) and loss.

    Raises:
        RuntimeError: it failed, or a knob was not applied.
    """
    with tempfile.TemporaryDirectory() as recording:
        plan = Path(recording) / "plan.json"
        plan.write_text(json.dumps({"edits": edits, "was": {}}))
        (folder / "job.py").write_text(text)
        asked = {"PYTHONPATH": str(BOOT), "WHYIDLE_RUN": recording, "WHYIDLE_PLAN": str(plan)}
        done = subprocess.run(
            [sys.executable, "job.py"],
            cwd=folder,
            env={**os.environ, **asked},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        reports = [json.loads(path.read_text()) for path in Path(recording).glob("*.knobs.json")]
        applied = {knob for report in reports for knob in report["applied"]}
        if edits.keys() - applied:
            raise RuntimeError(f"not applied: {[report['declined'] for report in reports]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare_losses(first: float, second: float) -> str:
    """Return how much two losses differ."""
    return "same bits" if first == second else f"differs by {abs(second / first - 1):.0e}"


def main() -> None:
    """Measure one knob and print its row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("knob", choices=CASES)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    case = CASES[args.knob]
    arms = {"sick": (case.job, {}), "knob": (case.job, case.edits)}
    arms["hand"] = (case.job.replace(case.old, case.new, 1), {})
    found: dict[str, list[dict[str, float]]] = {name: [] for name in arms}
    with tempfile.TemporaryDirectory() as folder:
        if args.knob == "compilation_cache":  # what is kept from one run serves the next
            run_job(Path(folder), *arms["knob"])
        for _ in range(args.rounds):
            for name, arm in arms.items():
                found[name].append(run_job(Path(folder), *arm))
    times = {name: sorted(one["ms"] for one in runs) for name, runs in found.items()}
    sick = statistics.median(times["sick"])
    cells = [", ".join(f"`{knob}` = {value}" for knob, value in case.edits.items())]
    for name, took in times.items():
        middle = statistics.median(took)
        factor = "" if name == "sick" else f", {sick / middle:.1f}x"
        cells.append(f"{middle:.3g} ({took[0]:.3g} to {took[-1]:.3g}){factor}")
    losses = {name: runs[-1]["loss"] for name, runs in found.items()}
    cells.append(compare_losses(losses["sick"], losses["knob"]))
    cells.append(compare_losses(losses["sick"], losses["hand"]))
    print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
