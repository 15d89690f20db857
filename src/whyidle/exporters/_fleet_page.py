"""Renders the report of a fleet on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from whyidle.exporters._number_format import format_percent
from whyidle.exporters._text_page import Colours, Page
from whyidle.model.fleet import (
    FLEET_STATES,
    Account,
    Capacity,
    CauseRow,
    FleetJobRow,
    FleetReport,
    FleetState,
    GroupRow,
)

STYLES: Final[dict[FleetState, str]] = {
    "useful": "green", "starved": "bold red", "idle-held": "bold magenta",
    "idle-reserved": "magenta", "failed": "bold yellow", "unknown": "dim",
}  # fmt: skip
MEANINGS: Final[dict[FleetState, str]] = {
    "useful": "kernels ran",
    "starved": "the job used its GPU and kept it waiting in between",
    "idle-held": "no kernel ran, and a process held memory",
    "idle-reserved": "no kernel ran, and nothing held memory",
    "failed": "the job ended in an error",
    "unknown": "no telemetry, or none that can be attributed",
}
TITLES: Final = {"user": "users", "job": "jobs", "partition": "partitions", "node": "nodes"}
_BAR: Final = 20
_MOST_ROWS: Final = 15
_MOST_ADVICE: Final = 8


def render_report(report: FleetReport, *, width: int, colours: Colours | None) -> str:
    """Render the totals, one table, the advice, and what they rest on."""
    page = Page(width, colours)
    _write_head(page, report)
    _write_states(page, report.total)
    _write_table(page, report)
    _write_advice(page, report)
    _write_coverage(page, report)
    return page.page_text()


def _write_head(page: Page, report: FleetReport) -> None:
    hours = report.total.gpu_hours
    share = format_percent(hours["wasted"] / hours["allocated"]) if hours["allocated"] else "0 %"
    head = f"{format_hours(hours['allocated'])} GPU-hours allocated, {share} wasted"
    page.write_paragraph(page.styled_text(head, "bold"))
    span = f"{report.since[:16]} to {report.until[:16]} UTC, {report.job_count:,} jobs"
    page.write_paragraph(span, style="dim")
    if money := describe_money(report):
        page.write_paragraph(money)
    page.write_blank_line()


def describe_money(report: FleetReport) -> str:
    """Cost and energy in a line; empty where no price is stated and no power was measured."""
    total, currency = report.total, report.prices.currency or ""
    parts = []
    if total.cost is not None and total.wasted_cost is not None:
        amount = f"{total.cost:,.0f} {currency}".strip()
        parts.append(f"cost {amount}, of it {total.wasted_cost:,.0f} wasted")
    if total.energy_kwh is not None:
        energy = f"{total.energy_kwh:,.1f} kWh"
        cost = total.energy_cost
        parts.append(
            f"{energy} ({cost:,.0f} {currency})".replace(" )", ")") if cost is not None else energy
        )
    return " · ".join(parts)


def _write_states(page: Page, total: Account) -> None:
    whole = total.allocated_gpu_ms or 1
    for state in FLEET_STATES:
        share = total.gpu_ms[state] / whole
        bar = ("#" if page.plain else "█") * round(share * _BAR)
        row = page.styled_text(f"{state:<14}", STYLES[state])
        row.append(f"{format_hours(total.gpu_hours[state]):>10} {format_percent(share):>6}  ")
        row.append_text(page.styled_text(f"{bar:<{_BAR}} ", STYLES[state]))
        if page.width >= 100:
            row.append_text(page.styled_text(MEANINGS[state], "dim"))
        row.rstrip()
        page.write_row(row)


def _write_table(page: Page, report: FleetReport) -> None:
    page.write_blank_line()
    if report.by == "cause":
        _write_causes(page, report.causes)
        return
    rows = report.groups[report.by]
    labels = {job.job: _job_label(job) for job in report.jobs} if report.by == "job" else {}
    heads = (TITLES[report.by].rstrip("s"), "jobs", "GPU-h", "wasted", "busy", "mostly", "")
    cells = [_group_cells(page, row, labels.get(row.key, row.key)) for row in rows[:_MOST_ROWS]]
    page.table(heads, cells)
    if len(rows) > _MOST_ROWS:
        page.write_paragraph(f"and {len(rows) - _MOST_ROWS} more {TITLES[report.by]}", style="dim")


def _job_label(job: FleetJobRow) -> str:
    return " ".join(part for part in (job.job, job.user) if part)


def _group_cells(page: Page, row: GroupRow, label: str) -> list[Text]:
    account = row.account
    hours = account.gpu_hours
    wasted = hours["wasted"] / hours["allocated"] if hours["allocated"] else 0.0
    most = max(FLEET_STATES[1:], key=lambda state: account.gpu_ms[state])
    bar = ("#" if page.plain else "█") * round(wasted * 10)
    return [
        page.styled_text(label, limit=28),
        page.styled_text(f"{row.jobs:,}".rjust(4)),
        page.styled_text(format_hours(hours["allocated"]).rjust(8)),
        page.styled_text(format_hours(hours["wasted"]).rjust(8)),
        page.styled_text(format_percent(row.busy).rjust(4) if row.busy is not None else "   ?"),
        page.styled_text(most, STYLES[most]) if account.gpu_ms[most] else page.styled_text("-"),
        page.styled_text(bar, "red"),
    ]


def _write_causes(page: Page, causes: Sequence[CauseRow]) -> None:
    cells = [
        [
            page.styled_text(row.cause or "-"),
            page.styled_text(format_hours(row.gpu_hours).rjust(8)),
            page.styled_text(f"{row.jobs:,}"),
            page.styled_text(row.title),
        ]
        for row in causes[:_MOST_ROWS]
    ]
    page.table(("cause of starved time", "GPU-h", "jobs", ""), cells)


def _write_advice(page: Page, report: FleetReport) -> None:
    if not report.advice:
        return
    page.write_blank_line()
    page.write_paragraph("What to change", style="bold")
    for advice in report.advice[:_MOST_ADVICE]:
        gain = "" if advice.gpu_hours is None else f"{format_hours(advice.gpu_hours)} GPU-h, "
        head = page.styled_text("- " if page.plain else "• ", "dim")
        page.write_paragraph(f"{advice.text} ({gain}{advice.confidence} confidence)", head=head)
        page.write_paragraph("; ".join(advice.evidence), style="dim", indent=2)
    if len(report.advice) > _MOST_ADVICE:
        page.write_paragraph(f"and {len(report.advice) - _MOST_ADVICE} more", style="dim")


def _write_coverage(page: Page, report: FleetReport) -> None:
    coverage = report.coverage
    page.write_blank_line()
    if text := describe_capacity(report.capacity):
        page.write_paragraph(text, style="dim")
    text = f"telemetry covers {format_percent(coverage.telemetry)} of the allocated time"
    page.write_paragraph(text, style="dim")
    for what, count in coverage.counts.items():
        page.write_paragraph(f"{count:,} {what}", style="dim", indent=2)
    if coverage.disagreeing_hours:
        page.write_paragraph(
            f"two meters disagree in {coverage.disagreeing_hours:,} GPU-hours",
            style="yellow",
            indent=2,
        )
    for note in coverage.notes:
        page.write_paragraph(note, style="yellow", indent=2)


def describe_capacity(capacity: Capacity) -> str:
    """What jobs asked for and what there is, in a line; empty where neither nodes are known nor a
    GPU is shared."""
    if capacity.gpus is None and capacity.asked_devices == capacity.asked_shares:
        return ""
    text = f"jobs ask for {capacity.asked_devices:,} GPUs in all"
    if capacity.asked_devices != capacity.asked_shares:
        text += f", {capacity.asked_shares:,.1f} by their shares"
    text += f", {capacity.peak_devices:,} at the peak"
    return text + (f"; the cluster has {capacity.gpus:,}" if capacity.gpus else "")


def format_hours(hours: float) -> str:
    """GPU-hours with about three digits: ``1,234``, ``12.3``, ``0.12``."""
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.1f}" if hours >= 10 else f"{hours:.2f}"


def render_jobs(jobs: Sequence[FleetJobRow], *, width: int, colours: Colours | None) -> str:
    """Render a list of jobs."""
    page = Page(width, colours)
    heads = ("job", "user", "state", "GPUs", "GPU-h", "wasted", "busy", "mostly")
    page.table(heads, [_job_cells(page, job) for job in jobs])
    if not jobs:
        page.write_paragraph("no job held a GPU", style="dim")
    return page.page_text()


def _job_cells(page: Page, job: FleetJobRow) -> list[Text]:
    hours = job.account.gpu_hours
    most = max(FLEET_STATES, key=lambda state: job.account.gpu_ms[state])
    gpus = f"{job.gpus}" if job.share == 1 else f"{job.gpus} x {job.share:.2g}"
    return [
        page.styled_text(job.job, limit=24),
        page.styled_text(job.user or "?", limit=12),
        page.styled_text(job.state),
        page.styled_text(gpus.rjust(4)),
        page.styled_text(format_hours(hours["allocated"]).rjust(7)),
        page.styled_text(format_hours(hours["wasted"]).rjust(7)),
        page.styled_text(format_percent(job.busy).rjust(4) if job.busy is not None else "   ?"),
        page.styled_text(most, STYLES[most]),
    ]
