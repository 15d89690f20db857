"""Exposed collectives that hold up work which was ready."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.idle_gaps import pick_rows
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.step_scope import StepScope


def held_up(facts: StepScope) -> Intervals:
    """The part of exposed collectives during which the next kernel had been launched already, and
    the host blocked in one: only there does work wait for a collective. Before, it would have
    waited for the host."""
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


def of_usual_steps(facts: StepScope) -> float:
    """How many times larger a share the same seconds of the device have of steps that nobody
    recorded, which are shorter than a burst's own; 1 of any other recording."""
    if facts.timeline.burst is None:
        return 1.0
    seen = facts.share_of(facts.time_of("collective", "collective_wait"))
    return (
        (facts.bucket_share("collective") + facts.bucket_share("collective_wait")) / seen
        if seen
        else 1.0
    )
