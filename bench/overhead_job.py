"""The training job that ``bench/overhead.py`` measures; settings come by environment.

A multi-layer perceptron on the CPU, one thread, fed by a ``DataLoader`` without workers from
memory. ``JOB_BATCH`` rows per step. Started itself it takes steps for ``JOB_SECONDS``, after a
second of warm-up, and writes how long they took to ``JOB_OUT`` as JSON.
"""

from __future__ import annotations

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


def ready() -> tuple[torch.nn.Module, Callable[[], None]]:
    """The model, and a training step of it, on one thread."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = network()
    return model, step_of(model, int(os.environ["JOB_BATCH"]))


def main() -> None:
    _, step = ready()
    lengths = []
    warm = time.perf_counter() + WARM_S
    while time.perf_counter() < warm:
        step()
    last = time.perf_counter()
    until = last + float(os.environ["JOB_SECONDS"])
    while last < until:
        step()
        now = time.perf_counter()
        lengths.append(now - last)
        last = now
    told = json.dumps({"median_s": statistics.median(lengths)})
    Path(os.environ["JOB_OUT"]).write_text(told, encoding="utf-8")


if __name__ == "__main__":
    main()
