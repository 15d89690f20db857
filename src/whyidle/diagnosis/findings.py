"""Turns proofs into findings: limits each to its bucket, grades it and adds its fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from whyidle import catalog
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.steps.forecast import LEAST_LEFT
from whyidle.diagnosis import slowest_rank
from whyidle.diagnosis.prediction_width import NONE, BucketSpread, widen_prediction
from whyidle.model.buckets import Bucket
from whyidle.model.cause import MOSTLY, WORTH, Cause, Proof
from whyidle.model.diagnosis import Finding, Interval, Predicted, ProposedFix, Removal, Severity
from whyidle.model.fix import Fix, Proposal
from whyidle.model.proof_facts import AllocationFacts

RISKY = 0.90
"""a fix whose stated interval reaches below this speed-up may do harm: it does not count, and
stands after those that do not"""
FAR_MORE = 2.0
"""a finding with a manual fix claims time before one with an automatic fix if it gains more than
this many times as much"""
KNOWN = 3.0
"""ratio of the ends of a removal's interval above which its gain is not known: one end says to
change the job now, the other that there is little to gain"""
NEARLY_ALL = 1.0 - LEAST_LEFT
CRITICAL = 0.20  # least share of the step that a ``critical`` finding costs


@dataclass(frozen=True)
class ProvenCause:
    """A proven cause with its decisive proof."""

    cause: Cause
    proof: Proof
    rank: int | None  # the rank of the proof
    spread: float  # share of the ranks with a proof
    scatter: BucketSpread = NONE  # variation of the bucket's time from step to step
    room: slowest_rank.Shares | None = None  # the gain that the other ranks allow

    @property
    def bucket(self) -> Bucket:
        """The bucket of its time."""
        return self.proof.bucket or self.cause.bucket

    @cached_property
    def decisions(self) -> tuple[list[tuple[Fix, Proposal]], list[str]]:
        """Proposals of its fixes, and notes on fixes that raised an error."""
        proposed, failed = [], []
        for fix in catalog.load_fixes().values():
            try:
                plan = fix.decide(self.proof) if self.cause.id in fix.causes else None
            except catalog.FAULTS as error:
                text = f"{type(error).__name__}: {error}"
                failed.append(f"internal error in the fix {fix.id}, which is not proposed: {text}")
                continue
            if plan is not None:
                proposed.append((fix, plan))
        return proposed, failed


def findings_of(job: Job, judged: list[ProvenCause]) -> list[Finding]:
    """Build the findings, sorted by their expected loss, behind what most of a run went into.

    The findings of one bucket never claim more time than the bucket holds. If two explain the same
    time, the one with an automatic fix that leaves the training unchanged claims it first. A manual
    fix precedes it only if it changes no numbers and gains far more. A finding also claims what its
    best fix saves, as far as the bucket has unclaimed time.
    """
    left = dict(job.attribution)
    best: dict[Bucket, float] = {}
    for item in judged:
        if (won := _automatic_gain(item)) is not None:
            best[item.bucket] = max(won, best.get(item.bucket, 0.0))
    findings = []

    def claim_key(item: ProvenCause) -> tuple[int, float]:
        return _claim_order(item, best), -item.proof.high * item.spread * item.proof.confidence

    for item in sorted(judged, key=claim_key):
        room = left[item.bucket]
        high = min(item.proof.high * item.spread, room)
        low = min(item.proof.low * item.spread, high)
        left[item.bucket] = max(0.0, room - high)
        # direct evidence is reported even if other findings have used up its bucket
        if high > 0.0 or item.proof.high == 0.0 or item.cause.direct:
            findings.append(_make_finding(item, low, high, room))
    extended = [_claim_bucket(finding, left) for finding in findings]
    once = {item.cause.id for item in judged if item.proof.once >= MOSTLY}

    def order_key(finding: Finding) -> tuple[bool, bool, float, float]:
        shares = _shares_work(finding.bucket, finding.fixes)
        return finding.cause not in once, shares, -finding.expected_loss, -finding.lost.high

    return sorted(extended, key=order_key)


def _claim_bucket(finding: Finding, left: dict[str, float]) -> Finding:
    more = min(max(0.0, finding.best_saving - finding.lost.high), left[finding.bucket])
    left[finding.bucket] -= more
    high = finding.lost.high + more
    fixes = [p for p in finding.fixes if p.consent != "convergence" and not p.changes_batch]
    sure = 1.0 - 1.0 / max([1.0, *(p.predicted.low for p in fixes if p.predicted)])
    low = max(finding.lost.low, min(sure, high))  # what a fix saves at least is lost
    lost = Interval(low=round(low, 6), high=round(high, 6))
    # a cost that may be nothing asks nobody to act at once
    if finding.severity == "critical" and (low < WORTH or low + high < 2 * CRITICAL):
        finding = msgspec.structs.replace(finding, severity="warning")
    return msgspec.structs.replace(finding, lost=lost)


def _shares_work(bucket: Bucket, fixes: Sequence[ProposedFix]) -> bool:
    """Whether a finding only spreads work of each step over more samples, which another finding
    may remove."""
    return bucket == "compute" and bool(fixes) and all(fix.changes_batch for fix in fixes)


def _claim_order(item: ProvenCause, best: dict[Bucket, float]) -> int:
    """Order of claims; ``best`` is the gain of automatic fixes per bucket. What asks for more
    resources or larger batches comes last: other remedies of the same time cost no money, and
    change nothing that is learned."""
    limit, fixes = item.proof.get_facts(AllocationFacts).limit, _propose_fixes(item)
    if item.cause.id == "cpu-starved-allocation" and not limit:
        return 3
    if _shares_work(item.bucket, fixes):
        return 3
    if _automatic_gain(item) is not None:
        return 1
    own = _expected_share(item, [p for p in _propose_fixes(item) if p.consent == "none"])
    rival = best.get(item.bucket)
    return 0 if rival is not None and own is not None and own > FAR_MORE * rival else 2


def _automatic_gain(item: ProvenCause) -> float | None:
    offered = [p for p in _propose_fixes(item) if p.automatic and p.consent != "convergence"]
    return _expected_share(item, offered)


def _expected_share(item: ProvenCause, fixes: Sequence[ProposedFix]) -> float | None:
    return _best_gain(item.proof.predicted, fixes) if fixes else None


def _make_finding(item: ProvenCause, low: float, high: float, room: float) -> Finding:
    proof, cause = item.proof, item.cause
    fixes = _propose_fixes(item)
    return Finding(
        cause=cause.id,
        family=cause.family,
        bucket=item.bucket,
        severity=grade_severity(item, high, fixes, room),
        headline=proof.headline,
        where=list(proof.where),
        lost=Interval(low=round(float(low), 6), high=round(float(high), 6)),
        removal=_removal(item, fixes),
        confidence=float(proof.confidence),
        evidence=list(proof.evidence),
        fixes=fixes,
        title=cause.title,
    )


def word_without_steps(finding: Finding) -> Finding:
    """Return the finding in the words of a recording without steps, whose figures are of all of
    it."""
    headline = finding.headline.replace(" per step", "").replace("of the step", "of the time")
    return msgspec.structs.replace(finding, headline=headline)


def grade_severity(
    item: ProvenCause, high: float, fixes: Sequence[ProposedFix], room: float = 0.0
) -> Severity:
    """Grade by the predicted gain of the best fix that does no harm, at most what the cause costs,
    or what its bucket has left (``room``) where a fix has a prediction of its own. A fix that may
    change what is learned counts by its careful end; GPUs that nobody uses are paid for either
    way. A ``critical`` finding must also lie in a bucket of waiting that holds that much time, and
    cost that much in the middle of its interval, whose low end must be worth a change. What
    most of a run went into, once, is a ``warning``."""
    careful = "" if item.cause.family == "allocation" else "convergence"
    fixes = [fix for fix in fixes if not fix.changes_batch]
    offered = [(p.predicted, p.consent == careful) for p in fixes if p.predicted]
    told = offered or [(item.proof.predicted, False)]
    sure = [one.low if asks else one.speedup for one, asks in told if one.low >= RISKY]
    own = any(plan.predicted for _, plan in item.decisions[0])
    cost = max(item.proof.high * item.spread, room if own else 0.0)
    gain = min(1.0 - 1.0 / max(sure, default=1.0), cost)
    if gain < WORTH:
        return "warning" if item.proof.once >= MOSTLY else "info"
    waits = item.bucket != "compute"
    return "critical" if min(gain, high) >= CRITICAL and waits else "warning"


def _best_gain(predicted: Predicted, fixes: Sequence[ProposedFix]) -> float:
    offered = [p.predicted.speedup for p in fixes if p.predicted and not p.changes_batch]
    return 1.0 - 1.0 / max(max(offered, default=predicted.speedup), 1.0)


def _propose_fixes(item: ProvenCause) -> list[ProposedFix]:
    fixes = [
        ProposedFix(
            fix=fix.id,
            summary=plan.summary,
            edits=list(plan.edits),
            consent=fix.consent,
            automatic=plan.automatic
            and (
                not plan.edits or any(not catalog.find_knob(e.knob).by_people for e in plan.edits)
            ),
            predicted=_predict_fix(plan, item) if plan.faster else None,
            risk=plan.risk,
        )
        for fix, plan in item.decisions[0]
    ]
    offered = [each.predicted for each in fixes if each.consent != "convergence"]
    sure = [one for one in offered if one and one.low >= RISKY]
    strongest = max((one.speedup for one in sure), default=1.0)
    spreading = {fix.id for fix, plan in item.decisions[0] if plan.spreads}

    def rank_fix(fix: ProposedFix) -> tuple[bool, bool, bool, float]:
        """Fixes that affect convergence last if others gain anything, then those that may do harm;
        automatic ones first if they may be as strong as the strongest, by the hopeful end, or by
        the expected if they only spread work; then by gain."""
        gain = fix.predicted
        reach = 1.0 if gain is None else gain.speedup if fix.fix in spreading else gain.high
        by_itself = fix.automatic and gain is not None and gain.speedup > 1.0 and reach >= strongest
        risky = gain is not None and gain.low < RISKY
        last = fix.consent == "convergence" and strongest >= 1.0 + WORTH
        return last, risky, not by_itself, -(gain.speedup if gain else 0.0)

    return sorted(fixes, key=rank_fix)


def _predict_fix(plan: Proposal, item: ProvenCause) -> Predicted:
    predicted = plan.predicted or item.proof.predicted
    if any(
        catalog.find_knob(edit.knob).per_sample for edit in plan.edits
    ):  # of samples, no share of the step
        return predicted
    return _within_run(predicted, item)


def _within_run(predicted: Predicted, item: ProvenCause) -> Predicted:
    """Limit a prediction by the other ranks, and widen it by the scatter of the steps: only a model
    of what else is recovered may exceed the cause's own cost, chance may not."""
    limited = slowest_rank.limit_prediction(predicted, item.room)
    widened = widen_prediction(limited, item.scatter)
    cost = min(item.proof.high * item.spread, NEARLY_ALL)
    most = max(limited.high, 1.0 / (1.0 - cost))
    return msgspec.structs.replace(widened, high=min(widened.high, most))


def _removal(item: ProvenCause, fixes: Sequence[ProposedFix]) -> Removal:
    """The gain of the cause's absence by its own model, at least that of each of its fixes."""
    gains = [fix.predicted for fix in fixes if fix.predicted and not fix.changes_batch]
    gains.append(_within_run(item.proof.removal or item.proof.predicted, item))
    speedup, low, high = (
        max(getattr(gain, end) for gain in gains) for end in ("speedup", "low", "high")
    )
    return Removal(speedup=speedup if high <= KNOWN * low else None, low=low, high=high)
