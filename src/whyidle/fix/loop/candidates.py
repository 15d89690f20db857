"""Selects the fixes of a diagnosis that are worth a trial, the most promising first."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from whyidle import catalog
from whyidle.model.diagnosis import Consent, Diagnosis, Edit, Predicted, ProposedFix

SAFE: frozenset[Consent] = frozenset({"none", "rounding"})  # classes of consent that need no option
WORTH = 1.02  # least speed-up of a fix to be kept
SLIGHT = 1.05
"""a fix expected below ``WORTH``, and at best below this, is not tried: it cannot be proven"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A fix that may be tried, and its cause."""

    fix: str
    cause: str
    consent: Consent
    summary: str
    edits: tuple[Edit, ...]
    predicted: Predicted | None
    risk: str


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
    """Select candidates, and fixes that are passed over, with the reason.

    Fixes of the verdict's cause come first, unless their optimistic gain is below the expected gain
    of another fix; then the most promising. Fixes in ``tried``, with the same edits, are omitted.
    """
    ready, passed_over = [], []
    seen: set[str] = set()
    for finding in diagnosis.findings:
        for fix in finding.fixes:
            candidate = Candidate(
                fix=fix.fix,
                cause=finding.cause,
                consent=fix.consent,
                summary=fix.summary,
                edits=tuple(fix.edits),
                predicted=fix.predicted,
                risk=fix.risk,
            )
            if fix.fix in seen or candidate_key(candidate) in tried:
                continue
            seen.add(fix.fix)
            why = _why_not(fix, allowed)
            if why is None:
                ready.append(candidate)
            else:
                passed_over.append(PassedOver(candidate, why))
    best = max((expected_gain(fix.predicted) for fix in ready), default=1.0)
    cures = verdict_fixes(diagnosis)
    ready.sort(
        key=lambda fix: (
            fix.fix not in cures or (fix.predicted.high if fix.predicted else 1.0) < best,
            -expected_gain(fix.predicted),
        )
    )
    return ready, passed_over


def verdict_fixes(diagnosis: Diagnosis) -> frozenset[str]:
    """Fixes of the cause that the verdict names."""
    cause = diagnosis.verdict.cause
    return frozenset(
        one.fix for finding in diagnosis.findings if finding.cause == cause for one in finding.fixes
    )


def candidate_key(candidate: Candidate) -> tuple[str, tuple[Edit, ...]]:
    """Identity of a candidate, without alternative values."""
    edits = tuple(msgspec.structs.replace(edit, among=()) for edit in candidate.edits)
    return candidate.fix, edits


def expected_gain(predicted: Predicted | None) -> float:
    """Expected speed-up; 1 without a prediction."""
    return predicted.speedup if predicted else 1.0


def _why_not(fix: ProposedFix, allowed: Collection[Consent]) -> str | None:
    by_hand = [why for edit in fix.edits if (why := catalog.find_knob(edit.knob).by_people)]
    if not fix.automatic or len(by_hand) == len(fix.edits):
        return f"apply it yourself: {by_hand[0] if by_hand else 'it needs knowledge of the job'}"
    if fix.consent not in allowed:
        return f"needs your permission: --allow {fix.consent}"
    return _explain_unpromising(fix.predicted) if fix.predicted is not None else None


def _explain_unpromising(predicted: Predicted) -> str | None:
    if predicted.high < WORTH:
        return f"predicted at most {predicted.high:.2f}×"
    if predicted.speedup >= WORTH:
        return None
    little = "no gain" if predicted.speedup <= 1.0 else f"only {predicted.speedup:.2f}×"
    if predicted.low < 1.0:
        return f"{little} predicted, and it may slow the job to {predicted.low:.2f}×"
    if predicted.high < SLIGHT:
        return f"{little} predicted, and at most {predicted.high:.2f}×"
    return None
