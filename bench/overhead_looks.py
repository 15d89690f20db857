"""What the thread of looks costs the job, per wake-up and altogether.

Started by ``bench/overhead.py`` with the probe in its environment. The job multiplies small
matrices, some 7 us each, and notes when each began: what a wake-up takes from it is how much later
than usual it is ``AFTER_NS`` afterwards. Early, when looks are dense, and later. Prints JSON.
"""

from __future__ import annotations

import gc
import json
import os
import random
import statistics
import time
from bisect import bisect_left
from itertools import accumulate, pairwise
from typing import Any

import torch

from overhead_hooks import watched

BEFORE_NS, AFTER_NS = 200_000, 1_000_000
NEAR_NS = 3_000_000
"""a write or the chores so soon after a look were the same wake-up's"""
ROUND = 200
CONTROLS = 2000
MOST_US = 3000.0
"""what a wake-up is said to have taken at most: above it the machine did something else"""


class Ear:
    """Hears when the thread looks, writes and does its chores."""

    def __init__(self, sampler: Any) -> None:
        self.heard: dict[str, list[int]] = {"look": [], "write": [], "chores": []}
        for owner, name, kind in (
            (sampler, "_adjust_period", "look"),
            (sampler.recorder, "flush_records", "write"),
            (sampler, "_do_chores", "chores"),
        ):
            setattr(owner, name, self.listening(getattr(owner, name), self.heard[kind]))

    @staticmethod
    def listening(original: Any, moments: list[int]) -> Any:
        """``original``, whose calls are noted."""

        def call(*args: Any) -> None:
            moments.append(time.perf_counter_ns())
            original(*args)

        return call

    def kind(self, moment: int) -> str:
        """Of the wake-up that looked at this moment."""
        for kind in ("chores", "write"):
            at = bisect_left(self.heard[kind], moment)
            if at < len(self.heard[kind]) and self.heard[kind][at] - moment < NEAR_NS:
                return kind
        return "look"


def work(seconds: float) -> list[int]:
    """When each multiplication began, ns."""
    left, right, begun = torch.randn(64, 64), torch.randn(64, 64), []
    product, clock = torch.mm, time.perf_counter_ns
    until = clock() + int(seconds * 1e9)
    while clock() < until:
        for _ in range(ROUND):
            begun.append(clock())
            product(left, right)
    return begun


def lag(begun: list[int]) -> list[float]:
    """How much later each began than if all before it had taken the usual time, us."""
    lengths = [b - a for a, b in pairwise(begun)]
    usual = statistics.median(lengths)
    return [each / 1e3 for each in accumulate((one - usual for one in lengths), initial=0.0)]


def measure(sampler: Any, seconds: float) -> dict[str, Any]:
    """Per kind of wake-up how many a second, and what each took from the job, us."""
    ear = Ear(sampler)
    gc.freeze()
    begun = work(seconds)
    behind = lag(begun)

    def taken(moment: int) -> float:
        first, last = bisect_left(begun, moment - BEFORE_NS), bisect_left(begun, moment + AFTER_NS)
        return min(behind[min(last, len(behind) - 1)] - behind[first], MOST_US)

    inside = range(begun[0] + BEFORE_NS, begun[-1] - AFTER_NS)
    nothing = statistics.mean(taken(random.choice(inside)) for _ in range(CONTROLS))
    found: dict[str, list[float]] = {kind: [] for kind in ear.heard}
    for moment in list(ear.heard["look"]):
        if moment in inside:
            found[ear.kind(moment)].append(taken(moment) - nothing)
    length = (begun[-1] - begun[0]) / 1e9
    return {kind: {"a_second": len(one) / length, "us": one} for kind, one in found.items()}


def main() -> None:
    loop, _ = watched()
    seconds = float(os.environ["JOB_SECONDS"])
    told = {}
    for when in ("early", "later"):
        loop.sampler.looks = 0 if when == "early" else 10**6
        told[when] = measure(loop.sampler, seconds)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
