"""What the probe adds to a step of TensorFlow and Keras, and to the start of a process.

Run it in an environment with TensorFlow::

    PYTHONPATH=src .venv-tensorflow/bin/python bench/overhead_tensorflow.py

Each hook and the function that it wraps are called in turn, with the same arguments, in one watched
process; a figure is the median of the differences of neighbours, which other programs disturb
alike. A loop of the job's own has a call of its function and of its iterator in a step, ``fit`` a
call of the function and two of the list of callbacks. Imports alternate in processes of their own.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["WHYIDLE_PROFILE"] = "off"

CALLS, WARM, GROUPS, IMPORTS = 6000, 400, 20, 5
BOOT = Path(__file__).parents[1] / "src/whyidle/probe/boot"


def compare_calls(name: str, hook: Any, next_arguments: Callable[[], tuple[Any, ...]]) -> float:
    """Print what a hook adds to a call, us; return it."""
    clock, original, added = time.perf_counter, hook.__wrapped__, []
    for number in range(CALLS + WARM):
        arguments, watched_first = next_arguments(), bool(number & 1)
        first, second = (hook, original) if watched_first else (original, hook)
        begin = clock()
        first(*arguments)
        middle = clock()
        second(*arguments)
        end = clock()
        if number >= WARM:  # the second of two calls finds its data in the caches
            more = (middle - begin) - (end - middle)
            added.append((more if watched_first else -more) * 1e6)
    added = [(one + two) / 2 for one, two in zip(added[::2], added[1::2], strict=True)]
    groups = [statistics.median(added[start::GROUPS]) for start in range(GROUPS)]
    low, _, high = statistics.quantiles(groups, n=4)
    middle_us = statistics.median(added)
    print(f"{name}: {middle_us:+.2f} us (quartiles of {GROUPS} groups {low:+.2f} to {high:+.2f})")
    return middle_us


def compare_hooks() -> None:
    """Print what the hooks of a step add."""
    import keras  # noqa: PLC0415
    import tensorflow as tf  # noqa: PLC0415
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator  # noqa: PLC0415
    from tensorflow.python.eager.polymorphic_function import (  # noqa: PLC0415
        polymorphic_function,
    )

    from whyidle.probe.core.session import Session  # noqa: PLC0415
    from whyidle.probe.frameworks.tensorflow.adapter import Adapter  # noqa: PLC0415

    weight = tf.Variable(1.0)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = (weight * x) ** 2
        weight.assign_sub(1e-3 * tape.gradient(loss, weight))
        return loss

    @tf.function
    def fit_step(iterator):
        return step(iterator.get_next())

    data = tf.data.Dataset.from_tensors(tf.constant(1.0)).repeat()
    one, kept = tf.constant(1.0), keras.callbacks.CallbackList([])
    with tempfile.TemporaryDirectory() as folder:
        session = Session(folder, Adapter())
        call, iterator, other = polymorphic_function.Function.__call__, iter(data), iter(data)
        for _ in range(WARM):
            step(next(iterator))
        called = compare_calls("a call of the step", call, lambda: (step, one))
        taken = compare_calls("a batch", OwnedIterator.__next__, lambda: (iterator,))
        fitted = compare_calls("a call that takes its batch", call, lambda: (fit_step, other))
        names = ("on_train_batch_begin", "on_train_batch_end")
        noted = [
            compare_calls(name, getattr(keras.callbacks.CallbackList, name), lambda: (kept, 1))
            for name in names
        ]
        assert session.events.steps > CALLS
        session.uninstall()
    print(f"a step of a loop: {called + taken:+.1f} us; of fit: {fitted + sum(noted):+.1f} us")


def compare_imports() -> None:
    """Print what the probe adds to an import."""
    plain, watched = [], []
    for _ in range(IMPORTS):
        for times, more in ((plain, {}), (watched, {"PYTHONPATH": str(BOOT)})):
            with tempfile.TemporaryDirectory() as folder:
                env = {**os.environ, **more, "WHYIDLE_RUN": folder}
                begin = time.perf_counter()
                command = [sys.executable, "-c", "import tensorflow, keras"]
                subprocess.run(command, env=env, check=True)
                times.append(time.perf_counter() - begin)
    added = [after / before - 1 for before, after in zip(plain, watched, strict=True)]
    print(
        f"import tensorflow, keras: {statistics.median(added):+.1%} on "
        f"{statistics.median(plain):.2f} s; {IMPORTS} pairs"
    )


if __name__ == "__main__":
    compare_hooks()
    compare_imports()
