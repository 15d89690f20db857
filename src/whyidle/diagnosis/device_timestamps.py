"""What device events of the probe add to a diagnosis: notes and evidence, and their limits."""

from __future__ import annotations

from dataclasses import replace

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.job import Job
from whyidle.model.cause import MOSTLY, Cause, Proof

SOURCE = "events"


def has_only_marks(facts: Facts) -> bool:
    """Whether events are the only evidence of this rank's device."""
    return not len(facts.timeline.device) and "device_marks" in facts.signals


def notes_on(job: Job) -> list[str]:
    """Describe the device events, and compare them with a burst if there is one."""
    notes = []
    for facts in job.ranks:
        if "device_marks" in facts.signals:
            prefix = f"rank {facts.rank}: " if len(job.ranks) > 1 else ""
            notes.append(prefix + _describe_marks(facts))
            if facts.burst is not None and len(facts.burst.timeline.device):
                notes.append(prefix + _compare_with_burst(facts, facts.burst))
    return notes


def _describe_marks(facts: Facts) -> str:
    progress, device = facts.host.progress, facts.device_noun
    shares = "" if facts.burst is not None else "; the shares come from these events"
    return (
        f"device events in {len(progress)} steps: the {device} waited for a batch "
        f"{progress.late_share:.0%} of the time, had work queued at least "
        f"{progress.fed_share:.0%}, and had an empty queue at {progress.dry_share:.0%} of the "
        f"other events; kernels and gaps between events cannot be distinguished{shares}"
    )


def _compare_with_burst(facts: Facts, burst: Facts) -> str:
    progress = facts.host.progress
    late, busy = burst.attribution["input"], burst.busy_ratio or 0.0
    window = burst.timeline.burst.window if burst.timeline.burst else "burst"
    return (
        f"{window}: waiting for a batch {late:.1%}, events over the run {progress.late_share:.1%} "
        f"({100 * (progress.late_share - late):+.1f} points); busy {busy:.1%}, events at least "
        f"{progress.fed_share:.1%} ({100 * (progress.fed_share - busy):+.1f} points)"
    )


def add_mark_evidence(cause: Cause, proof: Proof, facts: Facts) -> Proof:
    """Add the measured waiting time to a proof of late batches."""
    if cause.bucket != "input" or not has_only_marks(facts):
        return proof
    progress = facts.host.progress
    item = make_evidence(
        "device idle while waiting for the batch, share of measured time",
        progress.late_share,
        "ratio",
        samples=len(progress),
        source=SOURCE,
    )
    return replace(proof, evidence=(*proof.evidence, item))


def explain_missing_proof(facts: Facts) -> str:
    """Explain why device events alone give no verdict."""
    progress, device = facts.host.progress, facts.device_noun
    if progress.dry_share > MOSTLY:
        return (
            f"The {device}'s queue was empty at {progress.dry_share:.0%} of the events. To find "
            "out whether kernel launches, Python or synchronisation delay it, profile some steps "
            "(--profile auto)"
        )
    return (
        f"The {device} had work queued at least {progress.fed_share:.0%} of the time. To find out "
        "whether that work can be cheaper, profile some steps (--profile auto)"
    )
