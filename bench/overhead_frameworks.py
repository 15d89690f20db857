"""What the probe costs a loop of JAX, and its import: pairs of processes, with and without it.

``python bench/overhead_frameworks.py PYTHON [PAIRS]``: ``PYTHON`` is an interpreter with JAX. Each
process takes the median of its steps after warm-up; the report is the median of the differences.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BOOT = Path(__file__).parents[1] / "src" / "whyidle" / "probe" / "boot"
JOB = """
import json, statistics, time
begin = time.perf_counter()
import jax
imported = time.perf_counter() - begin
import jax.numpy as jnp

def loss(w, x):
    return ((jnp.tanh(x @ w) - x) ** 2).mean()

@jax.jit
def step(w, x):
    value, gradient = jax.value_and_grad(loss)(w, x)
    return w - 0.1 * gradient, value

w, x = jnp.ones((64, 64)) / 8, jnp.ones((8, 64))
times = []
for i in range(6000):
    begin = time.perf_counter()
    w, value = step(w, x)
    value.block_until_ready()
    times.append(time.perf_counter() - begin)
print(json.dumps([statistics.median(times[1000:]) * 1e6, imported * 1e3, float(value)]))
"""


def run_job(python: str, *, watched: bool) -> list[float]:
    """Median step (us), import (ms) and last loss of one process."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"PYTHONPATH": str(BOOT), "WHYIDLE_RUN": folder} if watched else {}
        environment = {**os.environ, **own, "JAX_PLATFORMS": "cpu"}
        command = [python, "-c", JOB]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found: list[float] = json.loads(done.stdout)
        return found


def main() -> None:
    """Measure pairs and print the medians."""
    python, pairs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    rows = []
    for number in range(pairs):
        order = (False, True) if number % 2 else (True, False)
        found = {watched: run_job(python, watched=watched) for watched in order}
        rows.append((found[False], found[True]))
        print(*(f"{value:10.2f}" for part in rows[-1] for value in part[:2]), flush=True)
    assert all(without[2] == with_it[2] for without, with_it in rows), "the losses differ"
    step, start = ([with_it[i] - without[i] for without, with_it in rows] for i in range(2))
    base = statistics.median(without[1] for without, _ in rows)
    print(f"step: {statistics.median(step):+.2f} us ({min(step):+.2f} to {max(step):+.2f})")
    part = statistics.median(start) / base
    print(f"import: {statistics.median(start):+.1f} ms of {base:.0f} ms ({part:+.1%})")


if __name__ == "__main__":
    main()
