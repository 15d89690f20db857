"""What is said of a start that took most of the time."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.job import Job
from whyidle.model.units import lasting


def notes_on(job: Job) -> list[str]:
    """Steps at the start that took most of the time: the step's length leaves them out, while all
    shares are of every step."""
    lead = job.lead
    length = (lead.steps.end - lead.steps.start) / 1e9
    first = int(np.argmax(lead.steps.steady))
    if not (lead.cold_start and first and lead.steps.found_by):
        return []
    slow = "the first step" if first == 1 else f"the first {first} steps"
    each = "" if first == 1 else " each"
    return [
        f"{slow} took {lasting(float(length[:first].mean()))}{each}, "
        f"{length[:first].sum() / length.sum():.0%} of the time: the step time and rate "
        f"told leave them out, shares and findings are of all steps (mean {lasting(lead.step_s)})"
    ]
