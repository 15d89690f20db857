"""What is said of a start that took most of the time."""

from __future__ import annotations

from whyidle.analysis.facts import Facts
from whyidle.analysis.job import Job
from whyidle.model.buckets import REASONS, bucket_of
from whyidle.model.number_text import format_duration

MOSTLY = 0.5
"""share of a start from which on what was done in it is named"""


def notes_on(job: Job) -> list[str]:
    """The cold start in numbers of its own: how long, what share of the recording, and on what it
    was spent mostly. The length of a step never counts it; shares count it only where there is
    hardly anything else."""
    lead = job.lead_rank
    first = len(lead.warm_up_s)
    if not (lead.slow_start and lead.steps.found_by):
        return []
    slow = "the first step" if first == 1 else f"the first {first} steps"
    each = "" if first == 1 else " each on average"
    share = lead.warm_up.total / max(int((lead.steps.end - lead.steps.start).sum()), 1)
    said = (
        f"cold start: {slow} took {format_duration(float(lead.warm_up_s.mean()))}{each}, "
        f"{share:.0%} of "
        f"the recorded time{_spent(lead)}"
    )
    if lead.cold_start:
        return [
            f"{said}; step time and rate leave that out, shares and findings are of all steps "
            f"(mean {format_duration(lead.step_s)})"
        ]
    return [f"{said}; shares, verdict and findings are of the {lead.step_count} steady steps"]


def _spent(lead: Facts) -> str:
    """What most of the start went into; empty where that is no single thing."""
    whole = max(lead.warm_up.total, 1)
    spent = {name: (part & lead.warm_up).total for name, part in lead.partition.parts.items()}
    most = max(spent, key=lambda name: spent[name])
    if spent[most] < MOSTLY * whole or bucket_of(most) in ("compute", "unknown"):
        return ""
    return f" ({spent[most] / whole:.0%} of it {REASONS[most][1]})"
