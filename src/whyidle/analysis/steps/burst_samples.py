"""The user's lines in stack samples taken while a burst recorded operators. A burst holds operators
without lines, samples hold lines without operators, and each has its own clock; both record the
optimizer's steps, which align the clocks."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.device.sync_sites import lines_at
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role
from whyidle.model.timeline import Timeline

APART_NS = 1_000_000
"""steps that the two clocks place further apart than this are different steps"""


def lines_during(burst: Facts, spans: Intervals) -> tuple[Place, ...]:
    """Return the user's lines sampled during ``spans`` of a burst, most frequent first."""
    live, context = burst.live, burst.timeline.burst
    if live is None or live.timeline.looks is None:
        return ()
    if context is None or not context.begin or not context.end:
        return ()
    begin, end = (moment - live.timeline.base_ns for moment in (context.begin, context.end))
    inside = _step_ends(live.timeline)
    ends = live.timeline.host.end[inside]
    inside = inside[(ends > begin) & (ends <= end)]
    ahead = _clock_offset(live.timeline.host.end[inside], burst.timeline)
    if ahead is None:
        return ()
    times = live.timeline.looks.time
    return lines_at(
        live, times[spans.contains_times(times - ahead)], live.timeline.host.thread[inside]
    )


def _step_ends(timeline: Timeline) -> I64:
    return timeline.rows_of(Role.OPTIMIZER)


def _clock_offset(live: I64, burst: Timeline) -> int | None:
    """Lead of the run's clock over the burst's, ns, by the ends of steps; None where unknown. The
    last step is left out: the burst was stopped while it was open."""
    recorded = burst.host.end[_step_ends(burst)]
    if len(live) < 2 or len(live) != len(recorded):
        return None
    ahead = (live - recorded)[:-1]
    return int(np.median(ahead)) if np.ptp(ahead) < APART_NS else None
