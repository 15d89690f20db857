"""The training job that ``bench/overhead.py`` measures; settings come by environment.

A multi-layer perceptron on the CPU, one thread, fed by a ``DataLoader`` without workers from
memory. ``JOB_BATCH`` rows per step, ``JOB_SECONDS`` of steps after a second of warm-up, written to
``JOB_OUT`` as JSON. ``JOB_INSTRUMENT``: nothing, ``profiler`` (torch.profiler around every step)
or ``traceml`` (as TraceML asks to be called in a plain loop).
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

WIDTH = 256
WARM_S = 1.0


def endless(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def step_of(model: torch.nn.Module, batch: int) -> Callable[[], None]:
    """One training step, as most people write it."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(32 * batch, WIDTH), torch.randn(32 * batch, 1))
    batches = endless(DataLoader(data, batch_size=None, sampler=chunks(batch)))

    def step() -> None:
        x, y = next(batches)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()

    return step


def chunks(batch: int) -> list[slice]:
    return [slice(i * batch, (i + 1) * batch) for i in range(32)]


def network(width: int = WIDTH) -> torch.nn.Module:
    hidden = [part for _ in range(4) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, width), *hidden, torch.nn.Linear(width, 1))


def around(instrument: str, model: torch.nn.Module) -> tuple[Any, Callable[[], Any]]:
    """What stands around the loop, and around each step."""
    if instrument == "profiler":
        activities = [torch.profiler.ProfilerActivity.CPU]
        return torch.profiler.profile(activities=activities), contextlib.nullcontext
    if instrument == "traceml":
        import traceml_ai  # noqa: PLC0415

        traceml_ai.init()
        return contextlib.nullcontext(), lambda: traceml_ai.trace_step(model)
    return contextlib.nullcontext(), contextlib.nullcontext


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = network()
    step = step_of(model, int(os.environ["JOB_BATCH"]))
    whole, each = around(os.environ.get("JOB_INSTRUMENT", ""), model)
    lengths = []
    warm = time.perf_counter() + WARM_S
    while time.perf_counter() < warm:
        step()
    begin = time.perf_counter()
    until = begin + float(os.environ["JOB_SECONDS"])
    with whole:
        last = time.perf_counter()
        while last < until:
            with each():
                step()
            now = time.perf_counter()
            lengths.append(now - last)
            last = now
    whole_s = time.perf_counter() - begin
    told = {
        "steps": len(lengths),
        "median_s": statistics.median(lengths),
        "mean_s": whole_s / len(lengths),
    }
    Path(os.environ["JOB_OUT"]).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()
