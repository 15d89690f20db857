"""Exposed collectives that hold up work which was ready."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.partition.idle_gaps import pick_rows
from whyidle.analysis.steps.step_scope import StepScope


def held_up(facts: StepScope) -> Intervals:
    """Return the exposed collective time with the next kernel launched or the host blocked."""
    device, host, exposed = facts.device, facts.host, facts.time_of("collective")
    blocked = facts.time_of("collective_wait")
    useful = np.flatnonzero(~host.collective)
    if not len(useful) or not len(exposed):
        return exposed | blocked
    index = np.searchsorted(device.start[useful], exposed.end)
    following = useful[np.minimum(index, len(useful) - 1)]
    call = host.linked.call[following]
    known = (index < len(useful)) & (call >= 0)
    begin = pick_rows(facts.timeline.host.start, call, 0)
    launched = np.where(known, begin, exposed.start)
    return union_of(np.maximum(exposed.start, launched), exposed.end) | blocked


def usual_step_factor(facts: StepScope) -> float:
    """Return the factor from a burst's shares to shares of its surrounding steps, else 1."""
    if facts.timeline.burst is None:
        return 1.0
    recorded = facts.share_of(facts.time_of("collective", "collective_wait"))
    usual = facts.bucket_share("collective") + facts.bucket_share("collective_wait")
    return usual / recorded if recorded else 1.0
