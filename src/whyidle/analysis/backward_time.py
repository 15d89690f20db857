"""Whether what a rank computes longer is work of its model, or only something before the model.

A rank with more data takes longer in its forward pass and in its backward pass, and of the backward
pass the length is recorded. What is longer outside of it alone is something else that the rank
does between two exchanges: on a watched CPU job looks cannot always tell Python, which hands over
its lock at its end, from the operator that comes next.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whyidle.analysis.intervals import union_of
from whyidle.analysis.step_scope import StepScope
from whyidle.model.roles import Role


def compute_time(facts: StepScope) -> tuple[float, float] | None:
    """What a rank computes inside and outside of its backward passes, s per step; None where these
    are not marked, as only a watched job on a CPU marks them."""
    host, rows = facts.timeline.host, facts.timeline.rows_of(Role.BACKWARD)
    if not facts.on_cpu or not len(rows):
        return None
    passes, work = union_of(host.start[rows], host.end[rows]), facts.time_of("compute")
    inside = facts.share_of(work & passes)
    return inside * facts.step_s, (facts.share_of(work) - inside) * facts.step_s


def excess_outside_backward(ranks: Sequence[StepScope], index: int) -> float:
    """What one rank computes longer than the others outside of its backward passes, s per step,
    beyond what would go with their being longer: as much as the others compute there, for what they
    compute in theirs. 0 where it is not known."""
    found = [compute_time(facts) for facts in ranks]
    known = [each for each in found if each is not None]
    if len(known) < len(found) or len(known) < 2:
        return 0.0
    inside, outside = known.pop(index)
    usual, before = np.mean(known, axis=0)
    more = max(0.0, inside - usual) * before / max(usual, 1e-12)
    return float(max(0.0, outside - before - more))
