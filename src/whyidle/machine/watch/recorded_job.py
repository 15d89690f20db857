"""A job under ``whyidle run``: its steps, and its proven cause, from the growing recording."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Final

from whyidle.machine.watch.job_groups import run_name
from whyidle.model.buckets import BUCKETS
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.watch_document import GpuState, Reason, WatchedFinding, WatchedSteps
from whyidle.model.live.job_news import JobNews, elapsed_s
from whyidle.record.live_state import LiveWatch
from whyidle.store.entry import RECORDING, entry_of

LAST_RUNS: Final = 5
FEWEST_RUNS: Final = 2
"""one earlier run says nothing about how much runs differ"""
PHASE_S: Final = 1.0
PHASE_STEPS: Final = 3
"""calls that are recorded for longer than this after the last step belong to something else"""


class RecordedJob:
    """Follows one recording, with a state of it that others may share."""

    def __init__(self, recording: Path, watch: LiveWatch | None = None) -> None:
        self._recording = recording
        self._watch = watch or LiveWatch(recording)
        self._slowest_s: float | None = None

    def look(self) -> JobNews:
        """Read what was appended, and diagnose if it is time."""
        moment = self._watch.current_moment({})
        self._watch.refresh_diagnosis()
        known = moment.diagnosis or self._watch.diagnosis
        last_ns, activity_ns = self._watch.last_activity()
        steps = WatchedSteps(
            run=run_name(self._recording),
            count=moment.steps,
            step_s=moment.step_s,
            last_step_s=elapsed_s(last_ns),
            phase=_phase(moment.steps, moment.step_s, last_ns, activity_ns),
            shares={b: getattr(known.attribution, b) for b in BUCKETS} if known else None,
            samples_per_s=known.steps.samples_per_s if known else None,
            overhead=known.coverage.overhead_ratio if known else None,
            rank_skew=_rank_skew(known) if known else None,
            to_last_runs=self._compare_with_last(moment.step_s),
            findings=_list_findings(known) if known else [],
        )
        state, reason = (_state_of(known), _reason_of(known)) if known else (None, None)
        return JobNews(steps=steps, last_step_ns=last_ns, state=state, reason=reason)

    def _compare_with_last(self, step_s: float | None) -> float | None:
        """The step time, of that of the slowest of the last runs of the same command."""
        if step_s is None:
            return None
        if self._slowest_s is None:
            self._slowest_s = slowest_step(self._recording) or 0.0
        return step_s / self._slowest_s if self._slowest_s else None


def _reason_of(known: Diagnosis) -> Reason | None:
    """The proven cause, its place and its first fix; None while nothing is proven."""
    if known.verdict.state == "inconclusive":
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


def _state_of(known: Diagnosis) -> GpuState:
    return "starved" if known.verdict.state == "starved" else "active"


def slowest_step(recording: Path) -> float | None:
    """The step time of the slowest of the last ``LAST_RUNS`` runs of the same command in the same
    store, s; None with fewer than ``FEWEST_RUNS``."""
    if recording.name != RECORDING:
        return None
    own = entry_of(recording.parent)
    command = own.meta.command if own.meta else None
    if command is None:
        return None
    folders = sorted(recording.parents[1].iterdir(), reverse=True)
    metas = (entry_of(path).meta for path in folders if path.name < own.id)
    known = (m.step_s for m in metas if m and m.command == command and m.step_s)
    steps = list(islice(known, LAST_RUNS))
    return max(steps) if len(steps) >= FEWEST_RUNS else None


def _rank_skew(diagnosis: Diagnosis) -> float | None:
    late = [row.lateness_s for row in diagnosis.detail.ranks if row.lateness_s is not None]
    mean = diagnosis.steps.mean_s
    return max(late) / mean if late and mean and len(diagnosis.detail.ranks) > 1 else None


def _list_findings(diagnosis: Diagnosis) -> list[WatchedFinding]:
    return [
        WatchedFinding(cause=one.cause, severity=one.severity, low=one.lost.low, high=one.lost.high)
        for one in diagnosis.findings[:5]
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
