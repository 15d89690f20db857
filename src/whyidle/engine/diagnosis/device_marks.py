"""What marks on a watched device add to a diagnosis: notes, evidence, and what they cannot tell."""

from __future__ import annotations

from dataclasses import replace

from whyidle.analysis.device_progress import PACED
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.job import Job
from whyidle.model.cause import Cause, Proof

SOURCE = "events"


def has_only_marks(facts: Facts) -> bool:
    """Whether marks are all that is known of this rank's device."""
    return not len(facts.timeline.device) and "device_marks" in facts.signals


def notes_on(job: Job) -> list[str]:
    """What the marks say, and what a burst says of the same."""
    notes = []
    for facts in job.ranks:
        if "device_marks" in facts.signals:
            who = f"rank {facts.rank}: " if len(job.ranks) > 1 else ""
            notes.append(who + _describe_marks(facts))
            if facts.burst is not None and len(facts.burst.timeline.device):
                notes.append(who + _compare_with_burst(facts, facts.burst))
    return notes


def _describe_marks(facts: Facts) -> str:
    told, device = facts.host.progress, facts.device_noun
    shares = "" if facts.burst is not None else "; the shares are told by these events"
    return (
        f"events in {len(told)} of the steps: the {device} waited for a batch "
        f"{told.late_share:.0%} of the time, surely had work in its queue {told.fed_share:.0%}, "
        f"and had done all that it was given at {told.dry_share:.0%} of the other marks; "
        f"kernels and gaps between marks are not told apart{shares}"
    )


def _compare_with_burst(facts: Facts, burst: Facts) -> str:
    told = facts.host.progress
    late, busy = burst.attribution["input"], burst.busy_ratio or 0.0
    window = burst.timeline.burst.window if burst.timeline.burst else "burst"
    return (
        f"{window}: waiting for a batch {late:.1%}, by events over the run {told.late_share:.1%} "
        f"({100 * (told.late_share - late):+.1f} points); busy {busy:.1%}, by events at least "
        f"{told.fed_share:.1%} ({100 * (told.fed_share - busy):+.1f} points)"
    )


def add_mark_evidence(cause: Cause, proof: Proof, facts: Facts) -> Proof:
    """A proof of late batches with what the events say of them."""
    if cause.bucket != "input" or not has_only_marks(facts):
        return proof
    told = facts.host.progress
    item = make_evidence(
        "device had done everything and waited for the batch, share of measured time",
        told.late_share,
        "ratio",
        samples=len(told),
        source=SOURCE,
    )
    return replace(proof, evidence=(*proof.evidence, item))


def explain_missing_proof(facts: Facts) -> str:
    """Why marks alone are no verdict, where no cause was proven by them."""
    told, device = facts.host.progress, facts.device_noun
    if told.dry_share > PACED:
        return (
            f"The {device} keeps pace with the host: at {told.dry_share:.0%} of the marks in its "
            "steps it had done all that it was given. Whether launching, Python or a "
            "synchronisation holds it up takes a burst (--profile auto)"
        )
    return (
        f"The {device} had work in its queue at least {told.fed_share:.0%} of the time; whether "
        "that work could be cheaper takes a burst (--profile auto)"
    )
