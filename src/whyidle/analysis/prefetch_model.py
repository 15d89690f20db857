"""P2: measured costs of batches pass through the loader's queue again, as deep as one likes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]

AHEAD = 2
"""batches for each worker, as PyTorch's loader has it where nothing is said"""
MANY = 50
"""batches of an epoch for each worker, from which on its ends cost under 2 %"""
EPOCHS = 4
"""that are passed through at least: the first one has no beginning"""


@dataclass(frozen=True, slots=True)
class QueueWait:
    """Mean wait per batch, s: for an epoch's first batches, which no queue holds ready, and for
    all others, which a deeper one may."""

    first: float
    others: float

    @property
    def total_s(self) -> float:
        """Both."""
        return self.first + self.others


def epoch_starts(begun: I64, called: I64) -> NDArray[np.bool_]:
    """Which batches are the first of an epoch.

    The loop has taken at most ``k`` batches when batch ``k`` is begun, and where an epoch ends it
    has asked once more and got none. So each call beyond ``k`` and the ends seen before is an end:
    workers that stay begin nothing before the next epoch does.

    Args:
        begun: when the workers began their batches, sorted, ns.
        called: when calls for a batch ended, sorted, ns.
    """
    found = np.zeros(len(begun), dtype=bool)
    ended = 0
    for k, calls in enumerate(np.searchsorted(called, begun, side="right")):
        if calls > k + ended:
            found[k], ended = True, int(calls) - k
    return found


def simulate_queue(
    costs: Iterable[float], first: Iterable[bool], *, workers: int, depth: int, between: float
) -> QueueWait:
    """What the loop waits, when at most ``depth`` batches may be ready or in work.

    Batch ``k`` of an epoch is made by worker ``k % workers`` once batch ``k - depth`` of it has
    been taken; batches are taken in order. The waits for the very first ones, one of each worker,
    are left out: the recording begins somewhere.

    Args:
        costs: of each batch in its worker, s.
        first: whether an epoch begins with it.
        workers: how many make batches.
        depth: of the queue, in batches.
        between: the loop's own time between taking two batches, s.
    """
    taken: list[float] = []
    free, begin, last = [0.0] * workers, 0.0, 0.0
    waits = {True: 0.0, False: 0.0}
    count = 0
    for k, (cost, opens) in enumerate(zip(costs, first, strict=True)):
        wanted = last + between
        if opens and k:
            taken, begin, free = [], wanted, [wanted] * workers
        mine = len(taken)
        room = taken[mine - depth] if mine >= depth else begin
        free[mine % workers] = max(free[mine % workers], room) + cost
        last = max(wanted, free[mine % workers])
        taken.append(last)
        if k >= workers:
            waits[mine < workers and begin > 0.0] += last - wanted
            count += 1
    return QueueWait(waits[True] / max(count, 1), waits[False] / max(count, 1))


def in_epochs(
    costs: NDArray[np.float64], batches: int, *, workers: int, between: float, ahead: int = AHEAD
) -> float:
    """Mean wait per batch, s, where every epoch has so many ``batches``, of costs as these (taken
    in turn), and its workers begin when it does: the fewer batches each of them makes, the more of
    the epoch passes until the first ones come, and while the last ones are waited for.

    Args:
        costs: of batches in their workers, s.
        batches: of an epoch; more than ``MANY`` for each worker are as good as no end.
        workers: how many make batches, and stay.
        between: the loop's own time between taking two batches, s.
        ahead: batches that each of them may have ready or in work.
    """
    length = max(1, min(batches, MANY * workers))
    order = np.resize(costs, max(EPOCHS, -(-len(costs) // length) + 1) * length)
    begins = np.arange(len(order)) % length == 0
    busy = min(workers, length)
    return simulate_queue(
        order, begins, workers=busy, depth=ahead * workers, between=between
    ).total_s
