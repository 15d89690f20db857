"""What torch.profiler itself adds to the host's time, per recorded operator.

A tiny addition on the CPU, with and without the profiler, in turn. The constants of
``whyidle.analysis.facts`` (``OP_COST_S``, ``SHAPES_COST_S``, ``FRAME_COST_S``) come from here::

    python bench/recording.py [--pairs 15]
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from torch.profiler import ProfilerActivity, profile

MODES = {
    "operators": {},
    "with shapes": {"record_shapes": True},
    "with memory": {"profile_memory": True},
    "with stacks": {"with_stack": True},
}
CALLS = 10_000


def add_many(tensor: torch.Tensor) -> float:
    """Microseconds per addition."""
    begin = time.perf_counter()
    for _ in range(CALLS):
        torch.add(tensor, tensor)
    return (time.perf_counter() - begin) / CALLS * 1e6


def framed(tensor: torch.Tensor) -> None:
    """One Python frame around nothing."""


def frames(tensor: torch.Tensor) -> float:
    """Microseconds per Python call."""
    begin = time.perf_counter()
    for _ in range(CALLS):
        framed(tensor)
    return (time.perf_counter() - begin) / CALLS * 1e6


def main() -> None:
    """Run and print medians and quartiles of the added time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15)
    pairs = parser.parse_args().pairs
    torch.set_num_threads(1)
    tensor = torch.randn(8)
    for name, options in MODES.items():
        for what, work in (("operator", add_many), ("Python frame", frames)):
            if what == "Python frame" and name != "with stacks":
                continue
            added = []
            for _ in range(pairs):
                plain = work(tensor)
                with profile(activities=[ProfilerActivity.CPU], **options):
                    recorded = work(tensor)
                added.append(recorded - plain)
            low, middle, high = statistics.quantiles(added, n=4)
            print(f"{name:14} per {what:14} {middle:6.2f} us (quartiles {low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
