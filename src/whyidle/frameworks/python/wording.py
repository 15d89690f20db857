"""How knobs of Python and of the script itself are written, in any framework."""

from __future__ import annotations

from typing import Final

BY_HAND: Final[dict[str, str]] = {
    "callbacks.every": "a condition that calls it every {value} steps, if it only logs or measures",
    "checkpoint.interval_factor": "an interval {value} times as long between checkpoints",
    "evaluation.batch_factor": "evaluation batches {value} times as large",
    "evaluation.interval_factor": "an interval {value} times as long between evaluations",
    "gc.collect_interval_steps": (
        "gc.collect() every {value} steps only (with gc.freeze(), gc.disable() as well)"
    ),
    "gc.freeze": "gc.collect() and gc.freeze() after the first steps",
    "iterator.ahead": "a thread that keeps a queue.Queue({value}) of batches full",
    "loader.batch_size_times": "a batch size {value} times as large",
    "logging.interval_factor": "an interval {value} times as long between reports",
    "python.profiler": "the command without cProfile or another Python profiler",
    "python.tracer": "the command without debugger and coverage",
    "log.deferred": "the values into a list, and read them where they are displayed",
}
