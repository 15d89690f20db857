"""Loading on one thread of the training process: whether it lacks cores."""

from __future__ import annotations

from dataclasses import dataclass

from whyidle.analysis.facts import Facts
from whyidle.analysis.input.batch_waits import find_batch_waits
from whyidle.model.cause import MOSTLY
from whyidle.model.roles import Role


@dataclass(frozen=True, slots=True)
class InlineLoading:
    """CPU use during inline loading, over the whole step."""

    lacking: float
    """share of the step in which the loading thread waits for a core"""
    beside: float
    """CPU time of other threads, in cores; operator threads spin after work (OpenMP)"""


def loading_alone(facts: Facts, waited: float) -> InlineLoading | None:
    """Return the CPU use of inline loading; None if the ``waited`` share has other reasons."""
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
