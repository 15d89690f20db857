"""Notes a start-up that took much of the recorded time."""

from __future__ import annotations

from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.job import Job
from whyidle.model.buckets import REASONS, bucket_of
from whyidle.model.cause import MOSTLY
from whyidle.model.number_text import format_duration, format_part


def notes_on(job: Job) -> list[str]:
    """Describe a slow start: its length, its share of the recording and its main activity. It never
    counts as step time; the shares contain it only if there is little else."""
    lead = job.lead_rank
    first = len(lead.warm_up_s)
    if not (lead.slow_start and lead.steps.found_by):
        return []
    slow = "the first step" if first == 1 else f"the first {first} steps"
    each = "" if first == 1 else " each on average"
    share = lead.warm_up.total / max(int((lead.steps.end - lead.steps.start).sum()), 1)
    text = (
        f"slow start: {slow} took {format_duration(float(lead.warm_up_s.mean()))}{each}, "
        f"{share:.0%} of the recorded time{_main_activity(lead)}"
    )
    if lead.cold_start:
        return [
            f"{text}; step time and throughput exclude it, shares and findings cover all steps "
            f"(mean {format_duration(lead.step_s)})"
        ]
    return [f"{text}; shares, verdict and findings cover the {lead.step_count} steady steps"]


def _main_activity(lead: Facts) -> str:
    whole = max(lead.warm_up.total, 1)
    spent = {name: (part & lead.warm_up).total for name, part in lead.partition.parts.items()}
    most = max(spent, key=lambda name: spent[name])
    if spent[most] < MOSTLY * whole or bucket_of(most) in ("compute", "unknown"):
        return ""
    return f" ({format_part(spent[most] / whole)} {REASONS[most][1]})"
