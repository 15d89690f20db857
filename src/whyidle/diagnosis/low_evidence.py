"""Lowers the confidence of findings that rest on few steady steps or few stack samples."""

from __future__ import annotations

from typing import Final

import msgspec

from whyidle import catalog
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.steps.step_scope import LEAST_STEADY
from whyidle.model.diagnosis import Finding

LEAST: Final = LEAST_STEADY
"""steady steps of a watched job that a verdict needs: the shortest and the longest of six enclose
the median with 97 % probability (1 - 2 / 2^6), of five with less than 95 %"""
LOOKS: Final = 6
"""stack samples that a critical finding needs if they are its only evidence: a share that all of
six support exceeds one half with 97 % probability, of five with less than 95 %"""
DOUBTFUL: Final = 0.5  # highest confidence with less evidence


def too_few_steps(job: Job) -> int | None:
    """Number of steady steps of a watched job if that is too few, else None. A profiler trace holds
    the steps that the user selected, so it always has enough."""
    lead = job.lead_rank
    if lead.timeline.source.format != "probe" or lead.has_no_steps or not lead.steps.found_by:
        return None
    count = int(lead.steps.steady.sum())
    return count if count < LEAST else None


def needs_few_steps(finding: Finding) -> bool:
    """Whether a few steps are sufficient evidence for the finding."""
    cause = catalog.load_causes().get(finding.cause)
    return cause is not None and cause.direct


def held_back(findings: list[Finding], count: int | None) -> list[Finding]:
    """Lower severity and confidence of findings that rest on too few steps or stack samples."""
    return [
        msgspec.structs.replace(
            one,
            severity="warning" if one.severity == "critical" else one.severity,
            confidence=min(one.confidence, DOUBTFUL),
        )
        if rests_on_few_samples(one) or (count is not None and not needs_few_steps(one))
        else one
        for one in findings
    ]


def rests_on_few_samples(finding: Finding) -> bool:
    """Whether a finding rests on too few stack samples."""
    counts = [one.samples for one in finding.evidence if one.source == "samples" and one.samples]
    return min(counts, default=LOOKS) < LOOKS


def explain_low_evidence(count: int) -> str:
    """Explain why there is no verdict."""
    steps = "No steady step was" if not count else f"Only {count} steady steps were"
    if count == 1:
        steps = "Only 1 steady step was"
    return f"{steps} recorded; a verdict needs at least {LEAST}"
