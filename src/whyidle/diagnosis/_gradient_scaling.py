"""Notes steps skipped by gradient scaling, whose work is lost."""

from __future__ import annotations

from typing import Final

from whyidle.analysis.ranks.job import Job
from whyidle.diagnosis.job_starts import steps_of

SEARCH: Final = 16
"""skips of the initial search: the scale starts at 2**16, and each skip halves it"""
GROWS_EVERY: Final = 2000
"""interval of doublings, each at the cost of at most one skip; defaults of ``GradScaler``"""


def notes_on(job: Job) -> list[str]:
    """A note if scaling skipped more steps than its search for a scale explains."""
    ranks = [facts.timeline for facts in job.ranks]
    skipped, updates = max((rank.process.skipped_steps, steps_of(rank)) for rank in ranks)
    usual = SEARCH + updates // GROWS_EVERY
    if skipped <= usual:
        return []
    return [
        f"gradient scaling skipped {skipped} of {updates} optimizer steps because of inf or nan "
        f"gradients, so their work was lost. The search for a scale explains at most {usual}; find "
        "the overflow, or train in bfloat16, which needs no scaling"
    ]
