"""What every plug-in promises, as checks that anyone can run over their own.

Each check takes one registered thing and raises ``AssertionError`` with a sentence. The project
runs them over its whole catalog; a third party does the same over theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec
import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.job import Job
from whyidle.model.buckets import BUCKETS
from whyidle.model.cause import SECTIONS, Cause, Proof
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.fix import Fix, Proposal
from whyidle.model.knobs import setting_problem
from whyidle.model.signals import SIGNALS
from whyidle.model.timeline import Timeline
from whyidle.testing.pairs import Pair, build_timelines
from whyidle.testing.strip import strip_signal


def run_cause(cause: Cause, timelines: list[Timeline]) -> Proof | None:
    """A cause's answer, or None where it would abstain."""
    job = Job(tuple(Facts(timeline) for timeline in timelines))
    if cause.missing_signals(job.signals):
        return None
    if job.lead_rank.step_count < cause.min_steps:
        return None
    proof: Proof | None = cause.test(job if cause.scope == "job" else job.lead_rank)
    return proof


def check_declaration(cause: Cause) -> None:
    """A cause is documented in sections, and names a known bucket and known signals."""
    assert cause.bucket in BUCKETS, f"{cause.id}: unknown bucket {cause.bucket}"
    assert all(need in SIGNALS for need in cause.needs), f"{cause.id}: unknown signal"
    assert cause.needs, f"{cause.id} needs no evidence, so it would always guess"
    position = -1
    for section in SECTIONS:
        at = cause.doc.find(section)
        assert at > position, f"{cause.id}: section {section!r} is missing or out of order"
        position = at


def check_silent(cause: Cause, healthy: list[Timeline]) -> None:
    """A cause finds nothing worth a warning in a healthy job."""
    proof = run_cause(cause, healthy)
    if proof is not None:
        gain = 1.0 - 1.0 / proof.predicted.speedup
        worst = min(gain, proof.high)
        assert worst < 0.03, f"{cause.id} blames a healthy job for {worst:.1%}"


def check_proof(cause: Cause, proof: Proof) -> None:
    """What a cause returns is complete and within bounds."""
    assert 0.0 <= proof.low <= proof.high <= 1.0, f"{cause.id}: lost {proof.low}..{proof.high}"
    assert proof.evidence, f"{cause.id} has no evidence"
    assert 0.0 < proof.confidence <= 1.0, f"{cause.id}: confidence {proof.confidence}"
    predicted = proof.predicted
    assert predicted.low <= predicted.speedup <= predicted.high, f"{cause.id}: interval"
    assert predicted.speedup >= 1.0, f"{cause.id} predicts a slow-down"
    assert predicted.low > 0.0, f"{cause.id}: interval"
    numbers = [predicted.low, predicted.speedup, predicted.high, proof.low, proof.high]
    assert np.isfinite(numbers).all(), f"{cause.id}: numbers that are not finite"
    assert proof.headline[:1].isupper() or not proof.headline[:1].isalpha()
    assert not proof.headline.endswith("."), f"{cause.id}: a headline has no full stop"


def check_deterministic(cause: Cause, timelines: list[Timeline]) -> None:
    """The same recording gives the same answer."""
    assert run_cause(cause, timelines) == run_cause(cause, timelines), cause.id


def check_abstains(cause: Cause, timelines: list[Timeline]) -> None:
    """Without any one of the signals it needs, a cause does not answer."""
    for need in cause.needs:
        stripped = strip_signal(need, timelines)
        job = Job(tuple(Facts(timeline) for timeline in stripped))
        assert need not in job.signals, f"{need} is still seen where it was removed"
        if not cause.missing_signals(
            job.signals
        ):  # what was read of the watched process does instead
            stripped = strip_signal(cause.watched[0], stripped)
        assert run_cause(cause, stripped) is None, f"{cause.id} guesses without {need}"


def check_leaves_input(cause: Cause, timelines: list[Timeline]) -> None:
    """A cause changes nothing of the recordings that it reads."""
    before = _contents(timelines)
    run_cause(cause, timelines)
    assert _contents(timelines) == before, f"{cause.id} changes what it reads"


def _contents(value: Any) -> Any:
    """All that a recording holds, as plain values; what it only remembers (``_...``) left out."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tobytes()
    if is_dataclass(value):
        names = [field.name for field in fields(value) if not field.name.startswith("_")]
        return {name: _contents(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {key: _contents(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_contents(each) for each in value]
    return value


def check_pair(cause: Cause, pair: Pair) -> None:
    """A cause fires on its sick job, with a complete proof that is the same each time and needs all
    of its evidence, leaves its input as it is, and is silent on its healthy job."""
    sick = build_timelines(pair.sick())
    check_leaves_input(cause, sick)
    proof = run_cause(cause, sick)
    assert proof is not None, f"{cause.id} is silent on its sick job"
    check_proof(cause, proof)
    check_deterministic(cause, sick)
    check_abstains(cause, sick)
    check_silent(cause, build_timelines(pair.healthy()))


def check_fix(fix: Fix, causes: dict[str, Cause]) -> None:
    """A fix says what it does and names causes that exist."""
    assert fix.causes, f"{fix.id} names no cause"
    unknown = [cause for cause in fix.causes if cause not in causes]
    assert not unknown, f"{fix.id} names {unknown}, which are no causes"
    assert fix.doc.strip(), f"{fix.id} has no docstring"


def check_proposal(fix: Fix, proposal: Proposal) -> None:
    """What a fix proposes says what to do, edits only what is known, and predicts an interval."""
    assert proposal.summary, f"{fix.id} proposes without a word"
    assert proposal.edits or not proposal.automatic, f"{fix.id} is automatic and edits nothing"
    wrong = [text for edit in proposal.edits if (text := setting_problem(edit.knob, edit.value))]
    assert not wrong, f"{fix.id}: {wrong}"
    if (predicted := proposal.predicted) is not None:
        numbers = [predicted.low, predicted.speedup, predicted.high]
        assert np.isfinite(numbers).all(), f"{fix.id}: numbers that are not finite"
        assert 0.0 < predicted.low <= predicted.speedup <= predicted.high, f"{fix.id}: interval"


def check_round_trip(diagnosis: Diagnosis) -> None:
    """A diagnosis survives being written and read, byte for byte."""
    text = msgspec.json.encode(diagnosis)
    again = msgspec.json.decode(text, type=Diagnosis)
    assert again == diagnosis
    assert msgspec.json.encode(again) == text


def check_bounds(diagnosis: Diagnosis) -> None:
    """Shares sum to one, and no bucket's findings claim more than the bucket holds, nor less than
    their fixes win at best, unless the bucket is spent: then they say so (``Finding.beyond``)."""
    shares = {bucket: getattr(diagnosis.attribution, bucket) for bucket in BUCKETS}
    assert abs(sum(shares.values()) - 1.0) < 1e-6
    assert all(share >= 0.0 for share in shares.values())
    for bucket, share in shares.items():
        mine = [f for f in diagnosis.findings if f.bucket == bucket]
        most = sum(finding.lost.high for finding in mine)
        assert most <= share + 1e-5, f"findings of {bucket} claim {most:.3f} of {share:.3f}"
        for finding in mine:
            told = not finding.exceeds_bucket or most >= share - 1e-3
            assert told, (
                f"{finding.cause} costs {finding.lost.high:.3f}, a fix wins {finding.best_saving}"
            )
    assert [f.lost.high for f in diagnosis.findings] == sorted(
        (f.lost.high for f in diagnosis.findings), reverse=True
    )
