"""What the probe adds to a step of TensorFlow and Keras, and to the start of a process.

Run it in an environment with TensorFlow, on an idle machine::

    PYTHONPATH=src .venv-tensorflow/bin/python bench/overhead_tensorflow.py

Watched and unwatched blocks of the same loop alternate in one process; imports alternate in
processes of their own. A figure is the median of the differences of neighbours.
"""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

BLOCKS, STEPS, WARM, IMPORTS = 80, 100, 20, 5
BOOT = Path(__file__).parents[1] / "src/whyidle/probe/boot"


def custom_loop() -> Callable[[], list[float]]:
    import tensorflow as tf  # noqa: PLC0415

    weights = tf.Variable(tf.random.normal((256, 256)))
    data = tf.data.Dataset.from_tensors(tf.ones((64, 256))).repeat(STEPS + WARM).prefetch(2)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.matmul(x, weights) ** 2)
        weights.assign_sub(1e-3 * tape.gradient(loss, weights))
        return loss

    def run() -> list[float]:
        times = []
        for x in data:
            times.append(time.perf_counter())
            step(x)
        return times

    return run


def fit() -> Callable[[], list[float]]:
    import keras  # noqa: PLC0415
    import tensorflow as tf  # noqa: PLC0415

    model = keras.Sequential([keras.layers.Input((256,)), keras.layers.Dense(256)])
    model.compile("sgd", "mse")
    pair = (tf.ones((64, 256)), tf.ones((64, 256)))
    data = tf.data.Dataset.from_tensors(pair).repeat(STEPS + WARM).prefetch(2)

    class Clock(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):  # noqa: ARG002
            times.append(time.perf_counter())

    times: list[float] = []

    def run() -> list[float]:
        times.clear()
        model.fit(data, verbose=0, shuffle=False, callbacks=[Clock()])
        return [*times]

    return run


def median_step(run: Callable[[], list[float]]) -> float:
    times = run()[WARM:]
    return statistics.median(b - a for a, b in itertools.pairwise(times))


def compare_blocks(name: str, make: Callable[[], Callable[[], list[float]]]) -> None:
    from whyidle.probe.core.session import Session  # noqa: PLC0415
    from whyidle.probe.frameworks.tensorflow.adapter import Adapter  # noqa: PLC0415

    os.environ["WHYIDLE_PROFILE"] = "off"
    run, plain, added = make(), [], []
    run()
    for _ in range(BLOCKS):
        before = median_step(run)
        with tempfile.TemporaryDirectory() as folder:
            session = Session(folder, Adapter())
            watched = median_step(run)
            session.uninstall()
        plain.append(before)
        added.append(watched - before)
    low, _, high = statistics.quantiles(added, n=4)
    print(
        f"{name}: {statistics.median(added) * 1e6:+.1f} us a step (quartiles {low * 1e6:+.1f} to "
        f"{high * 1e6:+.1f}) on {statistics.median(plain) * 1e6:.0f} us; {BLOCKS} pairs of blocks"
    )


def compare_imports() -> None:
    plain, watched = [], []
    for _ in range(IMPORTS):
        for times, more in ((plain, {}), (watched, {"PYTHONPATH": str(BOOT)})):
            with tempfile.TemporaryDirectory() as folder:
                env = {**os.environ, **more, "WHYIDLE_RUN": folder}
                begin = time.perf_counter()
                subprocess.run(
                    [sys.executable, "-c", "import tensorflow, keras"], env=env, check=True
                )
                times.append(time.perf_counter() - begin)
    added = [b / a - 1 for a, b in zip(plain, watched, strict=True)]
    print(
        f"import tensorflow, keras: {statistics.median(added):+.1%} on "
        f"{statistics.median(plain):.2f} s; {IMPORTS} pairs"
    )


if __name__ == "__main__":
    compare_blocks("custom loop", custom_loop)
    compare_blocks("fit", fit)
    compare_imports()
