"""Batches pass from loader workers to the loop: whether that is what the step waits for.

Shares are of the step (0-1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.intervals import union_of
from whyidle.analysis.worker_batches import MOSTLY
from whyidle.analysis.worker_stalls import WorkerStalls

READY = 0.15
"""share of the step in which ready batches are taken, from which on their hand-off is to blame:
from here on peers call waiting for data critical; less is what it takes with short steps"""
FEW_TENSORS = 4
"""a batch of so few tensors is as lean as is advised: its hand-off is only to blame where packing
and unpacking were seen to take the time"""


def to_blame(workers: WorkerStalls, ready: float) -> bool:
    """Whether batches are waited for while they are handed over, not while they are made;
    ``ready_share`` is the share of the step in which ready ones are taken."""
    mostly = ready >= max(READY, MOSTLY * workers.waiting_share)
    return (mostly and not _is_light(workers, ready)) or is_costly(workers)


def is_costly(workers: WorkerStalls) -> bool:
    """Whether handing batches over is what most of the waiting is for, as far as the workers'
    own figures account for it: packing slows the workers, unpacking the training process, in
    which all of them queue. It must cost as much as making them, or one side half of it all."""
    unpacking = workers.unpickle_time * workers.per_step
    making = workers.predict_stall(workers.count, workers.uncontended_batch_time)
    handing = unpacking + making * min(
        1.0, workers.pickle_time / max(workers.uncontended_batch_time, 1e-9)
    )
    enough = unpacking + making >= 0.3 * workers.waiting_share * workers.facts.step_s
    making_it = workers.mean_of("cpu") + workers.storage_wait
    packing, serial = workers.pickle_time, workers.unpickle_time * workers.count
    enough &= packing + serial >= making_it or 2 * max(packing, serial) >= making_it + packing
    return enough and handing >= MOSTLY * (unpacking + making) > 0.0


def ready_share(workers: WorkerStalls) -> float:
    """Share of the step spent in taking batches that were ready when they were asked for: the
    loop takes them in order, so that the next one is if more are ready than the other workers
    may have made. A batch counts as ready from when its worker put it into the queue, where a
    thread of the worker still has to pack it: less what the workers need anyway to make as many
    as the loop takes, however they are handed over."""
    found = _taking_share(workers, _surely_ready(workers))
    making = workers.predict_stall(workers.count, workers.uncontended_batch_time) / max(
        workers.facts.step_s, 1e-9
    )
    return max(0.0, min(found, workers.waiting_share - making))


def late_share(workers: WorkerStalls) -> float:
    """Share of the step spent in taking batches that were not ready."""
    return _taking_share(workers, ~_surely_ready(workers))


def _surely_ready(workers: WorkerStalls) -> NDArray[np.bool_]:
    """Which batches that were taken are sure to have been ready."""
    others = workers.depth - workers.depth // max(workers.count, 1)
    return np.asarray(workers.batches_taken["ready"] > others)


def _taking_share(workers: WorkerStalls, which: NDArray[np.bool_]) -> float:
    """Share of the step that the loop spends in taking some of the batches."""
    takes = workers.batches_taken[which]
    taken = union_of(takes["start"], takes["end"]) - workers.restart_time
    return workers.facts.share_of(workers.facts.time_of("loader") & taken)


def _is_light(workers: WorkerStalls, ready: float) -> bool:
    """Whether batches are a few tensors, and unpacking them is not what taking them is for: it
    waits for a worker that is busy with the next one to pass them on."""
    unpacking = workers.unpickle_time * workers.per_step / max(workers.facts.step_s, 1e-9)
    return 0 < (workers.loading.tensors or 0) <= FEW_TENSORS and unpacking < MOSTLY * ready
