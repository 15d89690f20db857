"""Batches pass from loader workers to the loop: whether that is what the step waits for.

Shares are of the step (0-1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.intervals import union
from whyidle.analysis.making import MOSTLY
from whyidle.analysis.stalling import Stalling

READY = 0.15
"""share of the step in which ready batches are taken, from which on their hand-off is to blame:
from here on peers call waiting for data critical; less is what it takes with short steps"""
FEW_TENSORS = 4
"""a batch of so few tensors is as lean as is advised: its hand-off is only to blame where packing
and unpacking were seen to take the time"""


def to_blame(workers: Stalling, ready: float) -> bool:
    """Whether batches are waited for while they are handed over, not while they are made; ``ready``
    is the share of the step in which ready ones are taken."""
    mostly = ready >= max(READY, MOSTLY * workers.waiting)
    return (mostly and not _lean(workers, ready)) or costly(workers)


def costly(workers: Stalling) -> bool:
    """Whether handing batches over is what most of the waiting is for, as far as the workers'
    own figures account for it: packing slows the workers, unpacking the training process, in
    which all of them queue. It must cost as much as making them, or one side half of it all."""
    unpacking = workers.unpickle * workers.per_step
    making = workers.stall(workers.count, workers.calm)
    handing = unpacking + making * min(1.0, workers.pickle / max(workers.calm, 1e-9))
    enough = unpacking + making >= 0.3 * workers.waiting * workers.facts.step_s
    making_it = workers.mean("cpu") + workers.storage
    packing, serial = workers.pickle, workers.unpickle * workers.count
    enough &= packing + serial >= making_it or 2 * max(packing, serial) >= making_it + packing
    return enough and handing >= MOSTLY * (unpacking + making) > 0.0


def ready(workers: Stalling) -> float:
    """Share of the step spent in taking batches that were ready when they were asked for: the
    loop takes them in order, so that the next one is if more are ready than the other workers
    may have made. A batch counts as ready from when its worker put it into the queue, where a
    thread of the worker still has to pack it: less what the workers need anyway to make as many
    as the loop takes, however they are handed over."""
    found = _taking(workers, _there(workers))
    making = workers.stall(workers.count, workers.calm) / max(workers.facts.step_s, 1e-9)
    return max(0.0, min(found, workers.waiting - making))


def late(workers: Stalling) -> float:
    """Share of the step spent in taking batches that were not ready."""
    return _taking(workers, ~_there(workers))


def _there(workers: Stalling) -> NDArray[np.bool_]:
    """Which batches that were taken are sure to have been ready."""
    others = workers.depth - workers.depth // max(workers.count, 1)
    return np.asarray(workers.takes["ready"] > others)


def _taking(workers: Stalling, which: NDArray[np.bool_]) -> float:
    """Share of the step that the loop spends in taking some of the batches."""
    takes = workers.takes[which]
    taken = union(takes["start"], takes["end"]) - workers.restarts
    return workers.facts.share_of(workers.facts.part("loader") & taken)


def _lean(workers: Stalling, ready: float) -> bool:
    """Whether batches are a few tensors, and unpacking them is not what taking them is for: it
    waits for a worker that is busy with the next one to pass them on."""
    unpacking = workers.unpickle * workers.per_step / max(workers.facts.step_s, 1e-9)
    return 0 < (workers.loading.tensors or 0) <= FEW_TENSORS and unpacking < MOSTLY * ready
