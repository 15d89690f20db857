"""What watching costs steps on a device: on against off in turns, inside one process.

Started by the stage ``overhead`` under ``whyidle run --profile off``. Rows per step are chosen so
that a step takes ``--step-ms``. A block is a fixed number of steps between two waits for the
device, as the host runs ahead of it: only its mean step is known. Prints JSON.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from overhead_inside import SETTLING, Nothing, Profiled, Watched

BLOCK_S, LEAST_STEPS, WARM_STEPS = 0.5, 5, 110
"""of a block; before, as many steps as after which the probe has done what it does at first"""
SETTLE_S = 1.5
WIDTH, DEPTH = {"cuda": 1024, "emulated": 32}, {"cuda": 8, "emulated": 2}
MOST_ROWS = 1 << 18
WATCHED_SHARE = 0.75
"""of the time; the profiler comes last, as CUPTI may stay attached and slow down later launches"""


class Rows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """The same rows on the device again and again."""

    def __init__(self, rows: int, width: int, device: str) -> None:
        self.batch = torch.randn(rows, width, device=device), torch.randn(rows, 1, device=device)

    def __len__(self) -> int:
        return 1_000_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.batch


def repeat_rows(rows: int, width: int, device: str) -> Iterator[Any]:
    """Batches without end, through a loader as jobs have one."""
    return iter(DataLoader(Rows(rows, width, device), batch_size=None, sampler=_Endless()))


class _Endless:
    def __iter__(self) -> Iterator[int]:
        while True:
            yield 0


class Job:
    """A perceptron and its training step."""

    def __init__(self, device: str) -> None:
        self.device, self.module = device, getattr(torch, device)
        self.width = WIDTH[device]
        layers = [
            part
            for _ in range(DEPTH[device])
            for part in (nn.Linear(self.width, self.width), nn.ReLU())
        ]
        self.network = nn.Sequential(*layers, nn.Linear(self.width, 1)).to(device)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=1e-4, fused=True)
        self.rows = 64
        self.batches = repeat_rows(self.rows, self.width, device)

    def step(self) -> None:
        """One training step."""
        x, y = next(self.batches)
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.network(x), y)
        loss.backward()
        self.optimizer.step()

    def time_steps(self, count: int) -> float:
        """Mean length of so many steps, s; the device is idle before and after."""
        self.module.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            self.step()
        self.module.synchronize()
        return (time.perf_counter() - begin) / count

    def choose_rows(self, step_s: float) -> None:
        """Set the number of rows so that a step takes about as long."""
        for _ in range(5):
            self.time_steps(SETTLING)
            took = self.time_steps(max(LEAST_STEPS, round(0.1 / step_s)))
            self.rows = min(MOST_ROWS, max(1, round(self.rows * min(8.0, step_s / took))))
            self.batches = repeat_rows(self.rows, self.width, self.device)


def measure_pairs(job: Job, seconds: float, count: int) -> dict[str, list[float]]:
    """Per kind of instrument: how much longer the mean step of a block is than that of the block
    without beside it, percent."""
    watched = Watched()
    watched.turn(False)
    instruments: dict[str, Any] = {
        "watched": watched,
        "control": Nothing(),
        "profiler": Profiled(),
    }
    added: dict[str, list[float]] = {kind: [] for kind in instruments}
    lengths: list[float] = []
    begin = time.perf_counter()
    for kinds, share in ((("watched", "control", "watched"), WATCHED_SHARE), (("profiler",), 1.0)):
        while time.perf_counter() < begin + share * seconds or not added[kinds[0]]:
            for kind in kinds:
                step_s = _time_pair(job, instruments[kind].turn, count)
                added[kind].append(100 * (step_s[True] / step_s[False] - 1))
                lengths.append(1e3 * step_s[False])
    return {**added, "step_ms": lengths}


def _time_pair(job: Job, turn: Callable[[bool], None], count: int) -> dict[bool, float]:
    step_s = {}
    for on in random.sample((True, False), 2):
        turn(on)
        job.time_steps(SETTLING)
        step_s[on] = job.time_steps(count)
    turn(False)
    return step_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=WIDTH, required=True)
    parser.add_argument("--step-ms", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    if args.device == "emulated":
        importlib.import_module("emulator.device")
    torch.manual_seed(0)
    job = Job(args.device)
    job.choose_rows(args.step_ms / 1e3)
    job.time_steps(WARM_STEPS)
    time.sleep(SETTLE_S)
    count = max(LEAST_STEPS, round(BLOCK_S / job.time_steps(LEAST_STEPS)))
    pairs = measure_pairs(job, args.seconds, count)
    print(json.dumps({"rows": job.rows, "steps_per_block": count, **pairs}), flush=True)


if __name__ == "__main__":
    main()
