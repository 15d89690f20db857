"""Whether the step waits for the hand-off of loader batches. Shares are of the step (0-1)."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import Mask
from whyidle.analysis.input.worker_stalls import WorkerStalls
from whyidle.analysis.intervals import union_of
from whyidle.model.cause import MOSTLY

READY = 0.15
"""share of the step from which taking ready batches is blamed on the hand-off; from here on peers
call waiting for data critical, and short steps normally have less"""
FEW_TENSORS = 4
"""batches of so few tensors blame the hand-off only if packing and unpacking are costly"""


def blames_handoff(workers: WorkerStalls, ready: float) -> bool:
    """Return whether batches are waited for during hand-off. ``ready`` is from ``ready_share``."""
    unpacking = workers.unpickle_time * workers.per_step / max(workers.facts.step_s, 1e-9)
    # batches of few tensors wait for a busy worker rather than for the hand-off
    light = 0 < (workers.loading.tensors or 0) <= FEW_TENSORS and unpacking < MOSTLY * ready
    mostly = ready >= max(READY, MOSTLY * workers.waiting_share)
    return (mostly and not light) or is_costly(workers)


def is_costly(workers: WorkerStalls) -> bool:
    """Return whether most of the waiting is for packing and unpacking. The hand-off must cost as
    much as producing the batches, or one side half of it all."""
    unpacking = workers.unpickle_time * workers.per_step
    production = workers.predict_stall(workers.count, workers.uncontended_batch_time)
    packing_share = workers.pickle_time / max(workers.uncontended_batch_time, 1e-9)
    handoff = unpacking + production * min(1.0, packing_share)
    enough = unpacking + production >= 0.3 * workers.waiting_share * workers.facts.step_s
    preparation = workers.mean_of("cpu") + workers.storage_wait
    packing, serial = workers.pickle_time, workers.unpickle_time * workers.count
    either = 2 * max(packing, serial) >= preparation + packing
    enough &= packing + serial >= preparation or either
    return enough and handoff >= MOSTLY * (unpacking + production) > 0.0


def ready_share(workers: WorkerStalls) -> float:
    """Return the share of the step spent taking batches that were ready when requested, without the
    time that production needs anyway. A batch counts as ready once queued, although a thread of its
    worker still has to pack it."""
    taking_share = _taking_share(workers, _surely_ready(workers))
    production = workers.predict_stall(workers.count, workers.uncontended_batch_time)
    production /= max(workers.facts.step_s, 1e-9)
    return max(0.0, min(taking_share, workers.waiting_share - production))


def late_share(workers: WorkerStalls) -> float:
    """Return the share of the step spent taking batches that were not ready."""
    return _taking_share(workers, ~_surely_ready(workers))


def _surely_ready(workers: WorkerStalls) -> Mask:
    others = workers.depth - workers.depth // max(workers.count, 1)
    return np.asarray(workers.batches_taken["ready"] > others)


def _taking_share(workers: WorkerStalls, mask: Mask) -> float:
    takes = workers.batches_taken[mask]
    taken = union_of(takes["start"], takes["end"]) - workers.restart_time
    return workers.facts.share_of(workers.facts.time_of("loader") & taken)
