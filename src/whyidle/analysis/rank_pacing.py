"""How fast the host alone would be: what its steps take it, without waiting.

Where the device is slow, the host runs ahead of it until the queue is full, and then waits for room
in nearly every launch. A recording's few steps of the device may then hold no call that launched
them, and no replay of these tells when the host would be the slower of the two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.codes import is_among
from whyidle.analysis.device_lanes import CALL_NS
from whyidle.analysis.intervals import union_of
from whyidle.analysis.recording_overhead import recording_cost_s
from whyidle.analysis.step_scope import StepScope
from whyidle.model.timeline import HostKind

I64 = NDArray[np.int64]


def pace_s(facts: StepScope) -> float:
    """Seconds per step in which the launching threads did not wait in a call of the runtime, and
    which recording them did not take; a call that does not wait takes ``CALL_NS``. 0 where no call
    is recorded."""
    host, scope = facts.timeline.host, facts.host_scope
    mine = scope.contains_times(host.start) & is_among(host.thread, facts.host.drivers)
    calls = np.flatnonzero(mine & (host.kind == HostKind.RUNTIME))
    if not len(calls):
        return 0.0
    begin = np.minimum(host.start[calls] + round(CALL_NS), host.end[calls])
    waited = (union_of(begin, host.end[calls]) & scope).total / 1e9
    recorded = recording_cost_s(
        host.kind[mine], shapes="shapes" in facts.timeline.available_signals()
    )
    return max(scope.total / 1e9 - waited - recorded, 0.0) / max(facts.step_count, 1)


def far_ahead(facts: StepScope) -> bool:
    """Whether the host had launched all steps of the device in scope before these began."""
    return not (facts.host_scope & facts.scope).total


def between_s(facts: StepScope, calls: I64) -> float:
    """Median of what the host takes from one of some calls to the next, s, without waiting in them;
    0 where they are few."""
    host = facts.timeline.host
    calls = calls[np.argsort(host.start[calls], kind="stable")]
    waited = np.maximum(host.end[calls] - host.start[calls] - CALL_NS, 0.0)
    if len(calls) < 2:
        return 0.0
    return float(np.median(np.diff(host.start[calls]) - waited[:-1])) / 1e9
