"""A job under ``whyidle run``: its steps, and its proven cause, from the growing recording."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from whyidle.engine.monitoring.job_groups import run_name
from whyidle.engine.recording.live_state import LiveWatch
from whyidle.model.buckets import BUCKETS
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.watch_document import GpuState, Reason, WatchedFinding, WatchedSteps

MOST_FINDINGS: Final = 5
PHASE_S: Final = 1.0
PHASE_STEPS: Final = 3
"""calls that are recorded for longer than this after the last step belong to something else"""


class RecordedJob:
    """Follows one recording. ``readable`` is whether it can be read at all."""

    def __init__(self, recording: Path) -> None:
        self._recording = recording
        self._watch = LiveWatch(recording)
        self._diagnosis: Diagnosis | None = None

    @property
    def diagnosis(self) -> Diagnosis | None:
        """The diagnosis of the last half minute; None before the first."""
        return self._diagnosis

    def look(self) -> WatchedSteps:
        """Read what was appended, and diagnose if it is time."""
        moment = self._watch.current_moment({})
        self._watch.refresh_diagnosis()
        self._diagnosis = moment.diagnosis or self._watch.diagnosis
        last_ns, activity_ns = self._watch.last_activity()
        since = None if last_ns is None else max(0.0, (time.perf_counter_ns() - last_ns) / 1e9)
        known = self._diagnosis
        return WatchedSteps(
            run=run_name(self._recording),
            count=moment.steps,
            step_s=moment.step_s,
            last_step_s=since,
            phase=_phase(moment.steps, moment.step_s, last_ns, activity_ns),
            shares={b: getattr(known.attribution, b) for b in BUCKETS} if known else None,
            samples_per_s=known.steps.samples_per_s if known else None,
            overhead=known.coverage.overhead_ratio if known else None,
            findings=_list_findings(known) if known else [],
        )

    def reason(self) -> Reason | None:
        """The proven cause, its place and its first fix; None while nothing is proven."""
        known = self._diagnosis
        if known is None or known.verdict.state == "inconclusive":
            return None
        named = (f for f in known.findings if f.cause == known.verdict.cause)
        first = next(named, None) or next(iter(known.findings), None)
        fix = first.fixes[0].summary if first and first.fixes else None
        return Reason(
            text=known.verdict.headline,
            proven=True,
            cause=known.verdict.cause,
            place=first.where[0] if first and first.where else None,
            fix=fix,
        )

    def state(self) -> GpuState | None:
        """``starved`` where the device waits; None while nothing is known."""
        if self._diagnosis is None:
            return None
        return "starved" if self._diagnosis.verdict.state == "starved" else "active"


def _list_findings(diagnosis: Diagnosis) -> list[WatchedFinding]:
    return [
        WatchedFinding(cause=one.cause, severity=one.severity, low=one.lost.low, high=one.lost.high)
        for one in diagnosis.findings[:MOST_FINDINGS]
    ]


def _phase(
    steps: int, step_s: float | None, last_ns: int | None, activity_ns: int | None
) -> str | None:
    if not steps:
        return "start"
    if last_ns is None or activity_ns is None:
        return None
    beyond_s = (activity_ns - last_ns) / 1e9
    return "evaluate" if beyond_s > max(PHASE_S, PHASE_STEPS * (step_s or 0.0)) else None
