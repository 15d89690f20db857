"""Renders one user's own page of a fleet's report, as plain text for a mail."""

from __future__ import annotations

from typing import Final

from whyidle.model.documents.fleet import FLEET_STATES, FleetJobRow, FleetReport
from whyidle.reports._fleet_page import MEANINGS, format_hours
from whyidle.reports._number_format import format_percent
from whyidle.reports._text_page import clean_text

_MOST_JOBS: Final = 10


def render_digest(report: FleetReport, user: str) -> str:
    """Render the page: the user's hours by state, the jobs with the most waste, and advice."""
    row = next(row for row in report.groups["user"] if row.key == user)
    hours = row.account.gpu_hours
    share = hours["wasted"] / hours["allocated"] if hours["allocated"] else 0.0
    count = "1 job" if row.jobs == 1 else f"{row.jobs:,} jobs"
    lines = [
        f"{user}: {format_hours(hours['allocated'])} GPU-hours in {count}, "
        f"{report.since[:10]} to {report.until[:10]}",
        f"wasted: {format_hours(hours['wasted'])} GPU-hours, {format_percent(share)}",
        "",
    ]
    lines += [
        f"  {state:<14}{format_hours(hours[state]):>9}  {MEANINGS[state]}"
        for state in FLEET_STATES
        if row.account.gpu_ms[state]
    ]
    jobs = [job for job in report.jobs if job.user == user and job.account.gpu_hours["wasted"]]
    if jobs:
        lines += ["", "Jobs with the most waste:"]
        lines += [_describe_job(job) for job in jobs[:_MOST_JOBS]]
    advice = [one for one in report.advice if one.subject == user]
    if advice:
        lines += ["", "What to change:"]
        lines += [f"  - {clean_text(one.text)} ({'; '.join(one.evidence)})" for one in advice]
    if row.coverage < 1:
        lines += ["", f"{format_percent(row.coverage)} of the time has telemetry."]
    return "\n".join(lines) + "\n"


def _describe_job(job: FleetJobRow) -> str:
    hours = job.account.gpu_hours
    most = max(FLEET_STATES[1:], key=lambda state: job.account.gpu_ms[state])
    cause = f", {job.cause}" if job.cause else ""
    name = clean_text(" ".join(part for part in (job.job, job.name) if part), 40)
    gpus = "1 GPU" if job.gpus == 1 else f"{job.gpus} GPUs"
    return f"  {name}: {gpus}, {format_hours(hours['wasted'])} GPU-h wasted, mostly {most}{cause}"
