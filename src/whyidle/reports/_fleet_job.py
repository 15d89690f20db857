"""The page of one job of a fleet."""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.model.documents.fleet import (
    CauseRow,
    FleetJobRow,
    JobEfficiency,
)
from whyidle.reports._fleet_page import LEAST_HOURS, TONES, format_hours
from whyidle.reports._number_format import NONE, format_age, format_bytes, format_percent
from whyidle.reports._sections import (
    Column,
    Headline,
    Items,
    Line,
    Paragraph,
    Part,
    Section,
    Span,
    Table,
)
from whyidle.reports._text_page import clean_text


def job_parts(page: JobEfficiency) -> list[Part]:
    """The page, in at most 30 lines."""
    job = page.job
    name = f"{job.job} {job.name}" if job.name and job.name != job.job else job.job
    nodes = ", ".join(job.nodes[:4]) + (" …" if len(job.nodes) > 4 else "")
    span = f"{(job.start or '?')[:16]} to {(job.end or 'now')[:16]} UTC"
    about = [job.state, span, job.partition, nodes]
    return [
        Headline(clean_text(f"job {name} of {job.user or '?'}", 76)),
        Paragraph(" · ".join(part for part in about if part), tone="dim"),
        _use_table(job),
        Section("Its GPU-hours", [Paragraph(_states_line(job))]),
        Section("Why its GPUs waited", [_causes(page)]),
        Section("What to ask for next time", [_advice(page)]),
    ]


def _use_table(job: FleetJobRow) -> Table:
    each = f" of {job.share:.2g}" if job.share != 1 else ""
    kind = job.profile or job.gpu_type or ""
    ran = None if job.unused_gpus is None else f"{job.gpus - job.unused_gpus} at least 1% busy"
    took = format_age(job.account.allocated_gpu_ms / 1000 / max(job.gpus * job.share, 1e-9))
    used = format_bytes(job.host_memory_used_bytes)
    rows: list[list[Line]] = [
        ["GPUs", f"{job.gpus}{each} {kind}".strip(), ran or "not measured"],
        ["GPU time", "", f"busy {_share(job.busy)}, at most {_share(job.busy_peak)}"],
        ["memory of a GPU", format_bytes(job.capacity_bytes), format_bytes(job.memory_p95_bytes)],
        ["cores", _number(job.cpus), f"{_number(job.cores_used, '.1f')} on average"],
        ["memory of the host", format_bytes(job.host_memory_bytes), used],
        ["time", format_age(job.limit_s) if job.limit_s else NONE, took],
    ]
    return Table([Column(""), Column("asked or given"), Column("used")], rows)


def _states_line(job: FleetJobRow) -> Line:
    whole, parts = job.account.allocated_gpu_ms, list[str | Span]()
    if job.account.gpu_hours["allocated"] < LEAST_HOURS:
        return [f"{whole / 1000:.0f} s of GPU time: too little to judge"]
    for state, spent in job.account.gpu_ms.items():
        if spent:
            hours = format_hours(job.account.gpu_hours[state])
            text = f"{state} {hours} ({format_percent(spent / whole)})"
            parts += [Span(", " * bool(parts)), Span(text, TONES[state])]
    return parts


def _causes(page: JobEfficiency) -> Part:
    if page.causes:
        lines: list[Line] = [
            [f"{row.cause}: {row.title} ", Span(f"{format_hours(row.gpu_hours)} GPU-h", "dim")]
            for row in page.causes[:3]
        ]
        return Items([*lines, f"whyidle report {page.job.run}"])
    if page.job.account.gpu_ms["starved"] + page.job.account.gpu_ms["idle-held"] == 0:
        return Paragraph("no sign that they did", tone="dim")
    return Paragraph("unknown; put `whyidle run` before the command to find out", tone="dim")


def _advice(page: JobEfficiency) -> Part:
    if page.next_time:
        return Items(list(page.next_time))
    if page.job.state != "completed":
        return Paragraph(f"the job is {page.job.state}: too early to tell", tone="dim")
    return Paragraph("the same: nothing measured suggests a change", tone="dim")


def describe_in_line(job: FleetJobRow, causes: Sequence[CauseRow], advice: Sequence[str]) -> str:
    """The page in one line of plain characters."""
    hours, used = job.account.gpu_hours, job.host_memory_used_bytes
    wanted = "; ".join(text.partition(" (")[0] for text in advice)
    parts = [
        f"whyidle: {job.gpus} GPU{'s' * (job.gpus != 1)}, {format_hours(hours['allocated'])} GPU-h",
        f"busy {_share(job.busy)}",
        f"wasted {format_hours(hours['wasted'])} GPU-h",
        job.unused_gpus and f"{job.unused_gpus} below 1% busy",
        job.memory_p95_bytes and f"GPU memory {format_bytes(job.memory_p95_bytes)}",
        job.cores_used and f"cores {job.cores_used:.1f}/{_number(job.cpus)}",
        used and f"memory {format_bytes(used)}/{format_bytes(job.host_memory_bytes)}",
        causes and f"waits: {causes[0].cause}",
        wanted and f"next time: {wanted}",
    ]
    return clean_text(", ".join(str(part) for part in parts if part), 250)


def _share(share: float | None) -> str:
    return "not measured" if share is None else format_percent(share)


def _number(value: float | None, form: str = ".0f") -> str:
    return NONE if value is None else format(value, form)
