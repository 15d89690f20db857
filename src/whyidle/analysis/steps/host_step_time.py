"""The host's own step time without waiting. A host with a slow device runs ahead until the queue is
full, then waits in nearly every launch. The recorded device steps may then hold no call that
launched them, and no replay shows when the host would be the slower one."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.device.device_lanes import CALL_NS
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.intervals import union_of
from whyidle.analysis.recording_overhead import recording_cost_s
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.timeline import HostKind


def pace_s(facts: StepScope) -> float:
    """Return the seconds per step in which launching threads neither wait in runtime calls nor
    record."""
    host, scope = facts.timeline.host, facts.host_scope
    driving = scope.contains_times(host.start) & is_among(host.thread, facts.host.drivers)
    calls = np.flatnonzero(driving & (host.kind == HostKind.RUNTIME))
    if not len(calls):
        return 0.0
    begin = np.minimum(host.start[calls] + round(CALL_NS), host.end[calls])
    waited = (union_of(begin, host.end[calls]) & scope).total / 1e9
    recorded = recording_cost_s(
        host.kind[driving], shapes="shapes" in facts.timeline.available_signals()
    )
    return max(scope.total / 1e9 - waited - recorded, 0.0) / max(facts.step_count, 1)


def is_far_ahead(facts: StepScope) -> bool:
    """Return whether the host had launched all device steps in scope before they began."""
    return not (facts.host_scope & facts.scope).total


def call_gap_s(facts: StepScope, calls: I64) -> float:
    """Return the host's median time between two of the calls, without waits in them, s."""
    host = facts.timeline.host
    calls = calls[np.argsort(host.start[calls], kind="stable")]
    waited = np.maximum(host.end[calls] - host.start[calls] - CALL_NS, 0.0)
    if len(calls) < 2:
        return 0.0
    return float(np.median(np.diff(host.start[calls]) - waited[:-1])) / 1e9
