"""Steps that gradient scaling skipped: all of their work was for nothing."""

from __future__ import annotations

from typing import Final

from whyidle.analysis.job import Job
from whyidle.engine.diagnosis.job_starts import steps_of

SEARCH: Final = 16
"""skips that finding the scale explains: it begins at 2**16 and is halved by each"""
GROWS_EVERY: Final = 2000
"""steps after which the scale is doubled, which costs a skip where it was the greatest possible;
both are defaults of ``torch.amp.GradScaler``"""


def notes_on(job: Job) -> list[str]:
    """A note where scaling skipped more steps than its search for a scale explains."""
    ranks = [facts.timeline for facts in job.ranks]
    skipped, updates = max((rank.process.skipped_steps, steps_of(rank)) for rank in ranks)
    usual = SEARCH + updates // GROWS_EVERY
    if skipped <= usual:
        return []
    return [
        f"gradient scaling skipped {skipped} of {updates} optimizer steps, whose work was for "
        f"nothing: their gradients held inf or nan. Its search for a scale explains {usual} at "
        "most; look for what overflows, or train in bfloat16, which needs no scaling"
    ]
