"""What of a diagnosis is worth a trial, in the order of what it promises."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from whyidle import catalog
from whyidle.engine.trial.statistics.rare_events import RareEvent, find_rare_event
from whyidle.model.diagnosis import Consent, Diagnosis, Edit, Finding, Predicted, ProposedFix

SAFE: frozenset[Consent] = frozenset({"none", "rounding"})
"""what may be tried without being asked for"""
WORTH = 1.02
"""a fix that makes the job less than this many times faster is not kept"""
SLIGHT = 1.05
"""a fix that is expected to bring less than is kept, and at best less than this, is not tried: six
pairs do not tell so little from chance on most machines, and other fixes wait"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A fix that may be tried, and why."""

    fix: str
    cause: str
    consent: Consent
    summary: str
    edits: tuple[Edit, ...]
    predicted: Predicted | None
    risk: str
    rare: RareEvent | None = None
    """how often comes what it is about, where that is known"""


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A fix that is not tried, and why not."""

    candidate: Candidate
    why: str


def choose_candidates(
    diagnosis: Diagnosis,
    allowed: Collection[Consent],
    tried: Collection[tuple[str, tuple[Edit, ...]]] = (),
) -> tuple[list[Candidate], list[PassedOver]]:
    """Those to try, and those to pass over. What cures the cause that the verdict names comes
    first, unless even its hopeful end is less than what another is expected to bring; else the most
    promising. What was ``tried`` already, with the same edits, comes in neither."""
    ready, passed = [], []
    seen: set[str] = set()
    for finding in diagnosis.findings:
        for one in finding.fixes:
            candidate = _make_candidate(finding, one, diagnosis)
            if one.fix in seen or candidate_key(candidate) in tried:
                continue
            seen.add(one.fix)
            why = _why_not(one, allowed)
            if why is None:
                ready.append(candidate)
            else:
                passed.append(PassedOver(candidate, why))
    best = max((expected_gain(one.predicted) for one in ready), default=1.0)
    cures = verdict_fixes(diagnosis)
    ready.sort(
        key=lambda one: (
            one.fix not in cures or _optimistic_gain(one.predicted) < best,
            -expected_gain(one.predicted),
        )
    )
    return ready, passed


def verdict_fixes(diagnosis: Diagnosis) -> frozenset[str]:
    """Fixes of the cause that the verdict names."""
    cause = diagnosis.verdict.cause
    return frozenset(
        one.fix for finding in diagnosis.findings if finding.cause == cause for one in finding.fixes
    )


def _optimistic_gain(predicted: Predicted | None) -> float:
    return predicted.high if predicted else 1.0


def candidate_key(candidate: Candidate) -> tuple[str, tuple[Edit, ...]]:
    """What makes two candidates the same: not what else they might be set to, nor how many times as
    large a batch would be, which is told of the job as it is by then."""
    edits = tuple(
        msgspec.structs.replace(
            edit, among=(), value=None if catalog.find_knob(edit.knob).per_sample else edit.value
        )
        for edit in candidate.edits
    )
    return candidate.fix, edits


def expected_gain(predicted: Predicted | None) -> float:
    """What a fix promises; nothing, where nothing is predicted."""
    return predicted.speedup if predicted else 1.0


def _make_candidate(finding: Finding, one: ProposedFix, diagnosis: Diagnosis) -> Candidate:
    return Candidate(
        fix=one.fix,
        cause=finding.cause,
        consent=one.consent,
        summary=one.summary,
        edits=tuple(one.edits),
        predicted=one.predicted,
        risk=one.risk,
        rare=find_rare_event(finding, diagnosis),
    )


def _why_not(one: ProposedFix, allowed: Collection[Consent]) -> str | None:
    by_hand = [why for edit in one.edits if (why := catalog.find_knob(edit.knob).by_people)]
    if not one.automatic or len(by_hand) == len(one.edits):
        return f"left to you: {by_hand[0] if by_hand else 'only who knows the job can do it'}"
    if one.consent not in allowed:
        return f"needs your consent: --allow {one.consent}"
    return _explain_unpromising(one.predicted) if one.predicted is not None else None


def _explain_unpromising(predicted: Predicted) -> str | None:
    """Why what is promised is worth no trial: a trial may be lucky, and what is expected to bring
    less than what is kept can then only be kept by mistake, or make the job slower."""
    if predicted.high < WORTH:
        return f"promises at most {predicted.high:.2f}×"
    if predicted.speedup >= WORTH:
        return None
    little = "nothing" if predicted.speedup <= 1.0 else f"{predicted.speedup:.2f}× only"
    if predicted.low < 1.0:
        return f"expected to bring {little}, and may slow the job to {predicted.low:.2f}×"
    if predicted.high < SLIGHT:
        return f"expected to bring {little}, and at most {predicted.high:.2f}×"
    return None
