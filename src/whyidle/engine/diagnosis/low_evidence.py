"""What is held back where hardly any steady step was seen, or hardly anybody looked."""

from __future__ import annotations

from typing import Final

import msgspec

from whyidle import catalog
from whyidle.analysis.job import Job
from whyidle.analysis.step_scope import LEAST_STEADY
from whyidle.model.diagnosis import Finding

LEAST: Final = LEAST_STEADY
"""steady steps of a watched job below which nothing is called critical and no verdict is given: of
six, the shortest and the longest hold the median of all between them with 97 % (1 - 2 / 2^6), of
five with less than 95 %"""
LOOKS: Final = 6
"""looks at stacks below which nothing that they alone tell is critical: a share that all of six
speak for is over half with 97 % (1 - 2 / 2^6), of five with less than 95 %"""
DOUBTFUL: Final = 0.5
"""confidence that is left"""


def too_few_steps(job: Job) -> int | None:
    """How many steady steps of a watched job were seen, where that is too few. A profiler's
    recording holds the steps that somebody chose, with all that happened in them."""
    lead = job.lead_rank
    if lead.timeline.source.format != "probe" or lead.has_no_steps or not lead.steps.found_by:
        return None
    count = int(lead.steps.steady.sum())
    return count if count < LEAST else None


def needs_few_steps(finding: Finding) -> bool:
    """Whether a few steps show it as well as many."""
    cause = catalog.load_causes().get(finding.cause)
    return cause is not None and cause.direct


def held_back(findings: list[Finding], count: int | None) -> list[Finding]:
    """Findings with what ``count`` steady steps (None: enough) allow to say of each, and the looks
    that tell of it."""
    return [
        _doubt_finding(one)
        if rests_on_few_samples(one) or (count is not None and not needs_few_steps(one))
        else one
        for one in findings
    ]


def rests_on_few_samples(finding: Finding) -> bool:
    """Whether a finding rests on a few looks: what counts them is what was proven by them."""
    looks = [one.samples for one in finding.evidence if one.source == "samples" and one.samples]
    return min(looks, default=LOOKS) < LOOKS


def _doubt_finding(finding: Finding) -> Finding:
    return msgspec.structs.replace(
        finding,
        severity="warning" if finding.severity == "critical" else finding.severity,
        confidence=min(finding.confidence, DOUBTFUL),
    )


def explain_low_evidence(count: int, serious: list[Finding]) -> str:
    """Why there is no verdict, and what it might have been."""
    steps = "No steady step was" if not count else f"Only {count} steady steps were"
    if count == 1:
        steps = "Only 1 steady step was"
    sign = f"; a first sign: {serious[0].headline}" if serious else ""
    return f"{steps} seen, too few to judge (at least {LEAST}){sign}"
