"""Lines of a watched program at which it was looked at while a burst recorded its operators.

A burst holds operators and no lines, looks hold lines and no operators, and each has a clock of its
own. The optimizer's steps are in both, so what one clock shows at a moment of the other is known.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.sync_sites import lines_at
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role
from whyidle.model.timeline import Timeline

APART_NS = 1_000_000
"""steps that two clocks tell further apart than this are not the same"""
I64 = NDArray[np.int64]


def lines_during(burst: Facts, spans: Intervals) -> tuple[Place, ...]:
    """The user's lines that looks of the run found in some time of its burst, most often found
    first; nothing where nobody looked just then."""
    live, told = burst.live, burst.timeline.burst
    if live is None or live.timeline.looks is None or not (told and told.begin and told.end):
        return ()
    begin, end = (moment - live.timeline.base_ns for moment in (told.begin, told.end))
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
    """How far the run's clock is ahead of the burst's, ns; None where that cannot be told. By the
    ends of steps: where one with a closure begins is told by other events in either. The last one's
    is late in the burst, which was taken down while that step was still open."""
    recorded = burst.host.end[_step_ends(burst)]
    if len(live) < 2 or len(live) != len(recorded):
        return None
    ahead = (live - recorded)[:-1]
    return int(np.median(ahead)) if np.ptp(ahead) < APART_NS else None
