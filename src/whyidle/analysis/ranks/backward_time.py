"""Compute time inside and outside the backward pass, which shows whether a slow rank has more model
work. More data lengthens the forward and the backward pass; excess outside the backward pass alone
is other work between two exchanges, which stack samples on a CPU cannot always separate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whyidle.analysis.intervals import union_of
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.roles import Role


def compute_time(facts: StepScope) -> tuple[float, float] | None:
    """Return a rank's compute inside and outside its backward passes, s per step, if marked."""
    host, rows = facts.timeline.host, facts.timeline.rows_of(Role.BACKWARD)
    if not facts.on_cpu or not len(rows):
        return None
    passes, work = union_of(host.start[rows], host.end[rows]), facts.time_of("compute")
    inside = facts.share_of(work & passes)
    return inside * facts.step_s, (facts.share_of(work) - inside) * facts.step_s


def excess_outside_backward(ranks: Sequence[StepScope], index: int) -> float:
    """Return a rank's excess compute outside backward passes, s per step; 0 where unknown."""
    times = [compute_time(facts) for facts in ranks]
    known = [time for time in times if time is not None]
    if len(known) < len(times) or len(known) < 2:
        return 0.0
    inside, outside = known.pop(index)
    usual, before = np.mean(known, axis=0)
    more = max(0.0, inside - usual) * before / max(usual, 1e-12)
    return float(max(0.0, outside - before - more))
