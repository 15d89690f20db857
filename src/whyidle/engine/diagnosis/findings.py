"""Proofs become findings: capped by their bucket, graded, and joined with their fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from whyidle import catalog
from whyidle.analysis.job import Job
from whyidle.engine.diagnosis import slowest_rank
from whyidle.engine.diagnosis.prediction_width import NONE, BucketSpread, widen_prediction
from whyidle.model.buckets import Bucket
from whyidle.model.cause import Cause, Proof
from whyidle.model.diagnosis import Finding, Interval, Predicted, ProposedFix, Removal, Severity
from whyidle.model.fix import Fix, Proposal

WORTH = 0.03
"""a finding whose removal is predicted to save less than this share of the step is ``info``"""
RISKY = 0.90
"""a best fix whose stated interval reaches below this speed-up is ``info``: it may do harm"""
FAR_MORE = 2.0
"""times what a fix wins that needs nobody's hand, from which on one by hand comes before it"""
CRITICAL = 0.20
"""from this share of the step on a finding is ``critical`` (where peers agree)"""


@dataclass(frozen=True)
class ProvenCause:
    """A proven cause: the strongest proof, or that of the rank which sets the pace; the rank it is
    from, on what share of ranks, how the time that it lies in scatters from step to step, and how
    much the other ranks let be won."""

    cause: Cause
    proof: Proof
    rank: int | None
    spread: float
    scatter: BucketSpread = NONE
    room: slowest_rank.Shares | None = None

    @property
    def bucket(self) -> Bucket:
        """Where its time lies."""
        return self.proof.bucket or self.cause.bucket

    @cached_property
    def decisions(self) -> tuple[list[tuple[Fix, Proposal]], list[str]]:
        """What its fixes propose, and what is to be said of those that failed."""
        proposed, failed = [], []
        for fix in catalog.load_fixes().values():
            try:
                plan = fix.decide(self.proof) if self.cause.id in fix.causes else None
            except catalog.FAULTS as error:
                text = f"{type(error).__name__}: {error}"
                failed.append(f"{fix.id} failed and is not proposed, by a mistake in it: {text}")
                continue
            if plan is not None:
                proposed.append((fix, plan))
        return proposed, failed


def findings_of(job: Job, judged: list[ProvenCause]) -> list[Finding]:
    """Findings sorted by what they cost; those of one bucket never claim more than it holds. Where
    two explain the same time, the one with a fix that needs no new training set-up claims it:
    a launch-bound step can be compiled as it is, a larger batch changes what is learned. A fix by
    hand goes before that only where it changes no numbers and is expected to win far more: a
    hundred small copies are better made one than hidden. What a fix wins at best was lost, too, as
    far as the bucket has time that none of them claims."""
    left = dict(job.attribution)
    best: dict[Bucket, float] = {}
    for item in judged:
        if (won := _automatic_gain(item)) is not None:
            best[item.bucket] = max(won, best.get(item.bucket, 0.0))
    found = []
    for item in sorted(judged, key=lambda item: (_claim_order(item, best), -_sort_weight(item))):
        room = left[item.bucket]
        high = min(item.proof.high * item.spread, room)
        low = min(item.proof.low * item.spread, high)
        left[item.bucket] = max(0.0, room - high)
        # else its bucket is spent; what the process itself says is true even where it is
        if high > 0.0 or item.proof.high == 0.0 or item.cause.direct:
            found.append(_make_finding(item, low, high))
    whole = [_claim_bucket(finding, left) for finding in found]
    return sorted(whole, key=lambda finding: -finding.lost.high)


def _claim_bucket(finding: Finding, left: dict[str, float]) -> Finding:
    """With what its fixes win at best, as far as it is ``left`` in its bucket."""
    high = finding.lost.high
    more = min(max(0.0, finding.best_saving - high), left[finding.bucket])
    left[finding.bucket] -= more
    lost = Interval(low=finding.lost.low, high=round(high + more, 6))
    return msgspec.structs.replace(finding, lost=lost)


def _claim_order(item: ProvenCause, best: dict[Bucket, float]) -> int:
    """When it claims its time, given what fixes win in each bucket that need nobody's hand: those
    first, last what is done by hand, or may change what is learned."""
    if _automatic_gain(item) is not None:
        return 1
    mine = _expected_share(item, [p for p in _propose_fixes(item) if p.consent == "none"])
    rival = best.get(item.bucket)
    return 0 if rival is not None and mine is not None and mine > FAR_MORE * rival else 2


def _automatic_gain(item: ProvenCause) -> float | None:
    """What fixes win that need nobody's hand and leave what is learned alone."""
    offered = _propose_fixes(item)
    return _expected_share(item, [p for p in offered if p.automatic and p.consent != "convergence"])


def _expected_share(item: ProvenCause, offered: Sequence[ProposedFix]) -> float | None:
    """Share of the step that the best of these fixes is expected to win; None without any."""
    return _best_gain(item.proof.predicted, offered) if offered else None


def _sort_weight(item: ProvenCause) -> float:
    return item.proof.high * item.spread * item.proof.confidence


def _make_finding(item: ProvenCause, low: float, high: float) -> Finding:
    proof, cause = item.proof, item.cause
    fixes = _propose_fixes(item)
    return Finding(
        cause=cause.id,
        family=cause.family,
        bucket=item.bucket,
        severity=grade_severity(item, high, fixes),
        headline=proof.headline,
        where=list(proof.where),
        lost=Interval(low=round(float(low), 6), high=round(float(high), 6)),
        removal=_removal(item, fixes),
        confidence=float(proof.confidence),
        evidence=list(proof.evidence),
        fixes=fixes,
        title=cause.title,
    )


def grade_severity(item: ProvenCause, high: float, fixes: Sequence[ProposedFix]) -> Severity:
    """By predicted gain of the best fix on offer, at most what the cause says is lost. A wait can
    cost time that another bucket holds: a loader's, say, that without it would run beside the
    device. ``critical`` asks for the cause's own bucket to hold as much, and a device that works,
    if dearly, never is: peers keep that for waiting."""
    gain = min(_best_gain(item.proof.predicted, fixes), item.proof.high * item.spread)
    if gain < WORTH or _is_risky(item.proof.predicted, fixes):
        return "info"
    waits = item.bucket != "compute"
    return "critical" if min(gain, high) >= CRITICAL and waits else "warning"


def _best_gain(predicted: Predicted, fixes: Sequence[ProposedFix]) -> float:
    """Share of the step that the best fix is expected to win: what no fix reaches is no news."""
    offered = [p.predicted.speedup for p in fixes if p.predicted and not p.changes_batch]
    return 1.0 - 1.0 / max(max(offered, default=predicted.speedup), 1.0)


def _is_risky(predicted: Predicted, fixes: Sequence[ProposedFix]) -> bool:
    """Whether the best fix may well slow the job down."""
    offered = [p.predicted for p in fixes if p.predicted and not p.changes_batch]
    return max(offered or [predicted], key=lambda one: one.speedup).low < RISKY


def _propose_fixes(item: ProvenCause) -> list[ProposedFix]:
    fixes = [
        ProposedFix(
            fix=fix.id,
            summary=plan.summary,
            edits=list(plan.edits),
            consent=fix.consent,
            automatic=plan.automatic,
            predicted=_predict_fix(plan, item) if plan.faster else None,
            risk=plan.risk,
        )
        for fix, plan in item.decisions[0]
    ]
    most = max(map(_expected_saving, fixes), default=0.0)
    return sorted(fixes, key=lambda each: _rank_fix(each, most))


def _predict_fix(plan: Proposal, item: ProvenCause) -> Predicted:
    predicted = plan.predicted or item.proof.predicted
    if any(
        catalog.find_knob(edit.knob).per_sample for edit in plan.edits
    ):  # of samples, no share of the step
        return predicted
    return _within_run(predicted, item)


def _within_run(predicted: Predicted, item: ProvenCause) -> Predicted:
    """A prediction as far as this run's other ranks and its scatter allow it."""
    return widen_prediction(slowest_rank.limit_prediction(predicted, item.room), item.scatter)


def _removal(item: ProvenCause, fixes: Sequence[ProposedFix]) -> Removal:
    """What the absence of the cause gains: no less than any of its fixes, of which one may also
    win time that the cause itself does not claim."""
    gains = [fix.predicted for fix in fixes if fix.predicted and not fix.changes_batch]
    gains.append(_within_run(item.proof.predicted, item))
    return Removal(
        speedup=max(gain.speedup for gain in gains),
        low=max(gain.low for gain in gains),
        high=max(gain.high for gain in gains),
    )


def _expected_saving(fix: ProposedFix) -> float:
    """Share of the step that it is expected to win."""
    return 1.0 - 1.0 / fix.predicted.speedup if fix.predicted else 0.0


def _rank_fix(fix: ProposedFix, most: float) -> tuple[bool, bool, float]:
    """What may change learning comes last; else what promises most comes first, behind what is
    applied by itself unless it promises far less: that costs nobody any work."""
    won = _expected_saving(fix)
    by_itself = fix.automatic and won > 0.0 and won * FAR_MORE >= most
    return fix.consent == "convergence", not by_itself, -won
