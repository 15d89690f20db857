"""Loading in the training process, which one thread does: whether cores are what it lacks."""

from __future__ import annotations

from dataclasses import dataclass

from whyidle.analysis.batch_waits import find_batch_waits
from whyidle.analysis.facts import Facts
from whyidle.analysis.worker_batches import MOSTLY
from whyidle.model.roles import Role


@dataclass(frozen=True, slots=True)
class InlineLoading:
    """What happens meanwhile, over the whole step. ``lacking``: share of the step in which the
    thread waits for a core, and nothing is loaded for it. ``beside``: cores' worth of CPU time that
    other threads of the process take. Those of an operator spin for a while when it is done
    (OpenMP's active waiting): it is no work, and no core more makes one thread any faster."""

    lacking: float
    beside: float


def loading_alone(facts: Facts, waited: float) -> InlineLoading | None:
    """None where most of the ``waited`` share of the step is for something else. Where the loading
    was not seen from within, nothing says that it lacks a core."""
    calls = find_batch_waits(facts, Role.BATCH_INLINE)
    share = float(calls.exposed.sum()) / facts.scope_s
    if facts.workers.count or not share or share < MOSTLY * waited:
        return None
    rows = facts.timeline.loading.batches
    rows = rows[(rows["worker"] < 0) & (rows["cpu"] >= 0)]
    took = float((rows["end"] - rows["start"]).sum())
    if not took:
        return InlineLoading(0.0, 0.0)
    lacking = min(1.0, float(rows["delay"].clip(0).sum()) / took)
    others = float((rows["process_cpu"] - rows["cpu"]).clip(0).sum()) / took
    during = float(calls.durations_s.sum()) / facts.scope_s
    return InlineLoading(share * lacking, min(1.0, during) * others)
