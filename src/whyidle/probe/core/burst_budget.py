"""The arithmetic of bursts: steady steps, changed step times, and the price of a recording."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

LEAST_STEPS = 10
LEAST_S = 1.5
"""training time before the first burst, s"""
RECENT_S = 2.0
RECENT_STEPS = 8
"""the current step time covers this much time or this many steps, whichever is more"""
SETTLED = 1.15
"""largest ratio between the halves of the current steps that counts as steady"""
CHANGED = 4 / 3
"""ratio of step times that counts as a change"""
CHANGED_WAIT = 0.33
"""difference in the share of time waited for data that counts as a change"""
SLOWER = 1.1
"""ratio of step times after and before a burst that counts as a slow-down, if it lasts"""
BUDGET = 0.005
"""share of the run so far that bursts may take as planned; a plan may be off by a factor of 2"""
FIRST_SHARE, FIRST_S = 0.05, 1.5
"""what the first burst may take as planned: this share of the run so far, and no more than this, s.
Without it a job of less than 100 times its price would end without an explanation"""
START_S = {False: 0.01, True: 1.0}
"""starting and stopping for the first time, without and with CUDA (not measured: CUPTI's start)"""
EVENT_S = {False: 6e-6, True: 15e-6}
"""recording, closing and writing one event: 2.0 + 1.5 + 0.5 us and 0.7 while it is recorded on
PyTorch 2.13; with shapes 8 + 3 + 3"""
EVENTS_PER_NODE, LIKELY_PER_NODE = 32, 16
"""events of forward and backward per node of the autograd graph, at most and as assumed for the
price: 10 (transformers) to 27 (bags of embeddings) in twelve small networks, 22 in Linears alone,
on PyTorch 2.13. So 16 is off by at most a factor of 1.7, which the budget allows"""
EVENTS_PER_TENSOR = {False: 32, True: 9}
"""events of an AdamW step per tensor: one by one (31; for-each on the CPU 34), and fused (8)"""
LOOK_BUDGET, LOOK_S, LOOK_STEPS = 0.5, 0.3, 10
"""``BUDGET``, ``LEAST_S`` and ``LEAST_STEPS`` with ``--profile look``: for a price of a second, as
with CUDA, ``BUDGET`` would let 200 s pass first, and a short run has few steps of a second"""
MOST_EVENTS = 200_000
"""most events in one burst: some 50 MB of trace"""


def median(values: Sequence[float]) -> float:
    """Return the median; importing ``statistics`` would take milliseconds in every process."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def present_lengths(ends: Sequence[int]) -> list[float]:
    """Return the lengths (s) of the current steps, from ends of steps in ns."""
    last = ends[-1] - int(RECENT_S * 1e9) if ends else 0
    kept = max(sum(end >= last for end in ends), RECENT_STEPS + 1)
    tail = list(ends)[-kept:]
    return [(b - a) / 1e9 for a, b in pairwise(tail)]


def is_steady(lengths: Sequence[float]) -> bool:
    """Whether both halves of the current steps take about as long."""
    if len(lengths) < RECENT_STEPS:
        return False
    half = len(lengths) // 2
    first, second = median(lengths[:half]), median(lengths[half:])
    return max(first, second) <= SETTLED * max(min(first, second), 1e-9)


def has_changed(before: tuple[float, float], now: tuple[float, float]) -> bool:
    """Whether (step time, share of data wait) has changed."""
    ratio = now[0] / max(before[0], 1e-9)
    return not 1 / CHANGED < ratio < CHANGED or abs(now[1] - before[1]) > CHANGED_WAIT


def estimate_events(
    nodes: int, tensors: int, together: bool, per_node: int = EVENTS_PER_NODE
) -> int:
    """Estimate the most events of one step. ``together``: the optimizer is fused, or for-each on a
    GPU."""
    return nodes * per_node + tensors * EVENTS_PER_TENSOR[together]


def price_s(recorded: int, cuda: bool) -> float:
    """Estimate how long the first burst of so many events takes, s."""
    return START_S[cuda] + recorded * EVENT_S[cuda]


def first_needed_s(price: float) -> float:
    """Return how long a run has to train before its first burst, s; infinite where that is never
    worth it."""
    return price / FIRST_SHARE if price <= FIRST_S else float("inf")


def needed_s(price: float, spent: float, share: float = BUDGET) -> float:
    """Return how long a run has to train before it can afford a burst, s."""
    return (spent + price) / share
