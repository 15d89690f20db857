"""What the report says of kernels that are missing from a recording, and of work from before it."""

from __future__ import annotations

from whyidle.analysis.device.device_backlog import earlier_work
from whyidle.analysis.device.lost_kernels import LOST, lost_launches, why_lost
from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.job import Job
from whyidle.model.number_text import format_duration
from whyidle.model.roles import Role

WAITS = {
    Role.LOADER: "waits for the DataLoader",
    Role.SYNC: "waits for the {device}",
    Role.COLLECTIVE_WAIT: "waits for other ranks",
}
"""what the host's time tells without kernels"""
NOTABLE = 0.01
"""least share of the recorded time for a backlog to be noted"""


def explain_lost_kernels(job: Job) -> str | None:
    """Say why idle time means nothing where launches were recorded but not their kernels, and what
    the host does; None where nothing is lost, or some steps are complete."""
    lead = job.lead_rank
    if len(lead.timeline.device) and lead.steps.found_by and lead.steps.incomplete is None:
        return None
    rows, lost = lost_launches(lead.timeline)
    if not len(rows) or lost.mean() <= LOST:
        return None
    incomplete = lead.steps.incomplete
    if len(lead.timeline.device) and incomplete is not None and not incomplete.all():
        return None
    device = lead.device_noun
    kernels = "its kernels" if lost.all() else f"{lost.mean():.0%} of its kernels"
    host = _describe_host(lead)
    return (
        f"The recording lost {kernels} ({lost.sum()} of {len(rows)} launches have none), so "
        f"{device} idle time is unknown: {why_lost(lost)}{f'. {host}' if host else ''}"
    )


def _describe_host(lead: Facts) -> str:
    start, end = lead.host_scope.start, lead.host_scope.end
    whole = max(int((end - start).sum()), 1)
    shares = {
        text.format(device=lead.device_noun): (lead.host.time_in(role) & lead.host_scope).total
        / whole
        for role, text in WAITS.items()
    }
    parts = [f"{text} {share:.0%}" for text, share in shares.items() if share > LOST]
    return f"The host {' and '.join(parts)} of the time" if parts else ""


def notes_on(job: Job) -> list[str]:
    """Note steps without their kernels, and work from before the recording."""
    lead, notes = job.lead_rank, []
    incomplete = lead.steps.incomplete
    if incomplete is not None and not incomplete.all():
        notes.append(
            f"kernels of {incomplete.sum()} of {len(lead.steps)} steps are missing from the "
            "recording, and these steps are left out: "
            f"{why_lost(lost_launches(lead.timeline)[1])}"
        )
    low = int(lead.steps.on_host[0][0])
    if not lead.steps.found_by and len(lead.timeline.host):
        low = int(lead.timeline.host.start.min())
    earlier = earlier_work(lead.timeline, lead.launches, low)
    if earlier and earlier.until - low > NOTABLE * (lead.steps.window[1] - low):
        busy = format_duration((earlier.until - low) / 1e9)
        notes.append(
            f"the {lead.device_noun} was busy for the first {busy} with work launched "
            "before the recording began; shares do not cover this time"
        )
    return notes
