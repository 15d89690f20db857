"""P2: replay of measured batch costs through a loader queue of any depth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from whyidle.analysis.arrays import F64, I64, Mask

AHEAD = 2
"""batches per worker, PyTorch's default"""
MANY = 50
"""batches of an epoch per worker from which its ends cost under 2 %"""
EPOCHS = 4
"""simulated epochs at least; the first one has no beginning"""


@dataclass(frozen=True, slots=True)
class QueueWait:
    """Mean wait per batch, s: for an epoch's first batches and for the others."""

    first: float
    others: float

    @property
    def total_s(self) -> float:
        """Both together, s."""
        return self.first + self.others


def epoch_starts(begun: I64, called: I64) -> Mask:
    """Return which batches are the first of an epoch, by when workers began batches and when calls
    for a batch ended (both sorted, ns).

    The loop has taken at most ``k`` batches when batch ``k`` is begun, and requested one more at
    the end of each epoch. So each call beyond ``k`` and the earlier ends is an end, as persistent
    workers begin nothing before the next epoch.
    """
    starts = np.zeros(len(begun), dtype=bool)
    ended = 0
    for k, calls in enumerate(np.searchsorted(called, begun, side="right")):
        if calls > k + ended:
            starts[k], ended = True, int(calls) - k
    return starts


def simulate_queue(
    costs: Iterable[float], first: Iterable[bool], *, workers: int, depth: int, between: float
) -> QueueWait:
    """Return the loop's waits with at most ``depth`` batches ready or in work.

    Batch ``k`` of an epoch is prepared in ``costs[k]`` s by worker ``k % workers`` once batch
    ``k - depth`` has been taken; batches are taken in order, ``between`` s after each other.
    ``first`` batches begin an epoch. Each worker's very first wait is left out, as the recording
    may begin anywhere.
    """
    taken: list[float] = []
    free, begin, last = [0.0] * workers, 0.0, 0.0
    waits = {True: 0.0, False: 0.0}
    count = 0
    for k, (cost, begins_epoch) in enumerate(zip(costs, first, strict=True)):
        requested = last + between
        if begins_epoch and k:
            taken, begin, free = [], requested, [requested] * workers
        position = len(taken)
        room = taken[position - depth] if position >= depth else begin
        free[position % workers] = max(free[position % workers], room) + cost
        last = max(requested, free[position % workers])
        taken.append(last)
        if k >= workers:
            waits[position < workers and begin > 0.0] += last - requested
            count += 1
    return QueueWait(waits[True] / max(count, 1), waits[False] / max(count, 1))


def wait_in_epochs(
    costs: F64, batches: int, *, workers: int, between: float, ahead: int = AHEAD
) -> float:
    """Return the mean wait per batch, s, in epochs of ``batches`` with these costs (s) in turn,
    whose workers start with each epoch; more than ``MANY`` batches per worker count as endless.
    The fewer batches per worker, the more of the epoch passes while the first and the last ones
    are waited for. ``between`` is the loop's own time between two batches, s; each worker has
    ``ahead`` batches ready or in work."""
    length = max(1, min(batches, MANY * workers))
    order = np.resize(costs, max(EPOCHS, -(-len(costs) // length) + 1) * length)
    begins = np.arange(len(order)) % length == 0
    busy = min(workers, length)
    depth = ahead * workers
    return simulate_queue(order, begins, workers=busy, depth=depth, between=between).total_s
