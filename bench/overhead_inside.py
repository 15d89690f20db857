"""What an instrument costs a whole step, in percent: on against off in turns, inside one process.

Started by ``bench/overhead.py``. Whole processes differ by more than what is asked for, so the
instrument is switched in blocks of ``BLOCK_S``: the probe's hooks and its thread of looks,
PyTorch's profiler around a block (starting and stopping it aside), TraceML's context around each
step. Prints JSON: per pair of blocks the ratio of mean and of median steps, and the step's length.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from overhead_hooks import Switch
from overhead_job import ready

BLOCK_S, SETTLING = 0.6, 2
"""of a block; steps of it that are not counted"""
STEADY = 10**6
"""looks after which they come as they do in a long run, rarer than at first"""


class Watched:
    """The probe: its hooks, and the thread that looks and writes."""

    def __init__(self) -> None:
        (loop,) = [thing for thing in gc.get_objects() if type(thing).__name__ == "Events"]
        self.sampler = loop.sampler
        self.sampler.looks = STEADY
        self.switch = Switch(loop)
        self.switch.turn(True)
        self.on = True

    def turn(self, on: bool) -> None:
        """Everything on, or everything off."""
        self.switch.turn(on)
        if on and not self.on:
            self.sampler._asleep.acquire(blocking=False)
            self.sampler.start()
        if self.on and not on:
            self.sampler.stop()
        self.on = on

    around = staticmethod(contextlib.nullcontext)


class Profiled:
    """``torch.profiler`` during a block."""

    def __init__(self) -> None:
        self.profiler: Any = None

    def turn(self, on: bool) -> None:
        """A new recording begins, or the one under way is thrown away."""
        if self.profiler is not None:
            self.profiler.stop()
            self.profiler = None
        if on:
            self.profiler = torch.profiler.profile()
            self.profiler.start()

    around = staticmethod(contextlib.nullcontext)


class Traced:
    """TraceML, as it asks to be called in a plain loop."""

    def __init__(self, model: Any) -> None:
        import traceml_ai  # noqa: PLC0415

        traceml_ai.init()
        self.step: Callable[[], Any] = lambda: traceml_ai.trace_step(model)
        self.around: Callable[[], Any] = self.step

    def turn(self, on: bool) -> None:
        """Around each step, or around none."""
        self.around = self.step if on else contextlib.nullcontext


class Nothing:
    """The control."""

    def turn(self, on: bool) -> None:
        """Nothing changes."""

    around = staticmethod(contextlib.nullcontext)


def block(step: Callable[[], None], around: Callable[[], Any]) -> tuple[float, float]:
    """Mean and median length of the steps of a block, s."""
    lengths = []
    until = time.perf_counter() + BLOCK_S
    begin = time.perf_counter()
    while begin < until:
        with around():
            step()
        end = time.perf_counter()
        lengths.append(end - begin)
        begin = end
    lengths = lengths[SETTLING:]
    return statistics.mean(lengths), statistics.median(lengths)


def main() -> None:
    model, step = ready()
    for _ in range(60):
        step()
    time.sleep(1.5)
    kinds = {"watched": Watched, "profiler": Profiled, "": Nothing}
    name = os.environ.get("JOB_INSTRUMENT", "")
    instrument = Traced(model) if name == "traceml" else kinds[name]()
    told: dict[str, list[float]] = {"mean": [], "median": [], "step_ms": []}
    until = time.perf_counter() + float(os.environ["JOB_SECONDS"])
    while time.perf_counter() < until:
        found = {}
        for on in random.sample((True, False), 2):
            instrument.turn(on)
            found[on] = block(step, instrument.around)
        told["mean"].append(100 * (found[True][0] / found[False][0] - 1))
        told["median"].append(100 * (found[True][1] / found[False][1] - 1))
        told["step_ms"].append(1e3 * found[False][1])
    instrument.turn(False)
    Path(os.environ["JOB_OUT"]).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()
