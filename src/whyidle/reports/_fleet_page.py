"""The report of a fleet, as sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from whyidle.model.cause import LEAST_SHARE
from whyidle.model.documents.fleet import (
    FLEET_STATES,
    Account,
    Advice,
    Capacity,
    FleetJobRow,
    FleetReport,
    FleetState,
    GroupRow,
)
from whyidle.reports._html.element import Markup
from whyidle.reports._html.sections import render_parts
from whyidle.reports._number_format import format_percent
from whyidle.reports._sections import (
    Column,
    Folded,
    Headline,
    Items,
    Line,
    Paragraph,
    Part,
    Picture,
    Section,
    Span,
    Table,
    Tone,
)

TONES: Final[dict[FleetState, Tone]] = {
    "useful": "good", "starved": "bad", "idle-held": "bad",
    "idle-reserved": "caution", "failed": "caution", "cluster": "caution",
    "unknown": "dim",
}  # fmt: skip
MEANINGS: Final[dict[FleetState, str]] = {
    "useful": "kernels ran",
    "starved": "the job used its GPU and kept it waiting in between",
    "idle-held": "no kernel ran, and a process held memory",
    "idle-reserved": "no kernel ran, and nothing held memory",
    "failed": "the job ended in an error",
    "cluster": "a node failed, or the job was preempted or requeued",
    "unknown": "no telemetry, or none that can be attributed",
}
LEAST_HOURS: Final = 0.01
"""GPU-hours that are shown: a job of half a minute is an error or a test, and is not judged"""
_MOST_ROWS: Final = 15
_MOST_GROUPS: Final = 40
_MOST_JOBS: Final = 20


def describe_total(hours: Mapping[str, float]) -> str:
    """All allocated time, its wasted share, and the unknown one, which must not read as none."""
    if (allocated := hours["allocated"]) < LEAST_HOURS:
        return (
            f"{allocated * 3600:.0f} s of GPU time allocated: too little to judge how it was used"
        )
    wasted, unknown = (hours[kind] / allocated for kind in ("wasted", "unknown"))
    text = f"{format_hours(allocated)} GPU-hours allocated"
    if unknown > 1.0 - LEAST_SHARE:
        return f"{text}; how they were used is unknown"
    text = f"{text}, {format_percent(wasted)} wasted"
    return f"{text}, {format_percent(unknown)} unknown" if unknown >= LEAST_SHARE else text


def report_parts(report: FleetReport) -> list[Part]:
    """The totals, the advice, who wasted what, and what it rests on. A terminal shows the groups
    that were asked for, the page all."""
    headline = Headline(describe_total(report.total.gpu_hours))
    span = f"{report.since[:16]} to {report.until[:16]} UTC, {report.job_count:,} jobs"
    if report.total.gpu_hours["allocated"] < LEAST_HOURS:
        return [headline, Paragraph(span, tone="dim"), _coverage(report)]
    advice = [_advice_line(one) for one in report.advice]
    return [
        headline,
        Paragraph(span, tone="dim"),
        *([Paragraph(money)] if (money := describe_money(report)) else ()),
        Section("", [_states_table(report.total)]),
        *([Section("What to change", [Items(advice)])] if advice else ()),
        Picture(
            lambda: Markup("".join(render_parts(_all_groups(report)))), [_asked_groups(report)]
        ),
        _coverage(report),
    ]


def _states_table(total: Account) -> Table:
    whole = total.allocated_gpu_ms
    rows: list[list[Line]] = []
    for state in FLEET_STATES:
        share = total.gpu_ms[state] / whole
        bar = Span("█" * round(share * 20), TONES[state])
        hours = format_hours(total.gpu_hours[state])
        rows.append([Span(state, TONES[state]), hours, format_percent(share), bar, MEANINGS[state]])
    columns = [Column("state"), Column("GPU-hours", True), Column("share", True)]
    return Table([*columns, Column("", rank=1), Column("")], rows)


def _advice_line(advice: Advice) -> Line:
    gain = "" if advice.gpu_hours is None else f"{format_hours(advice.gpu_hours)} GPU-h, "
    evidence = "; ".join(advice.evidence)
    return [f"{advice.text} ({gain}{advice.confidence} confidence) ", Span(evidence, "dim")]


def _asked_groups(report: FleetReport) -> Section:
    if report.by == "cause":
        return _causes_section(report, _MOST_ROWS)
    return _groups_section(report, report.by, _MOST_ROWS)


def _all_groups(report: FleetReport) -> list[Section]:
    sections = [_groups_section(report, "user", _MOST_GROUPS, unfolds=True)]
    if report.causes:
        sections.append(_causes_section(report, _MOST_GROUPS))
    sections += [
        _groups_section(report, key, _MOST_GROUPS)
        for key in ("partition", "node")
        if any(row.key != "?" for row in report.groups[key])
    ]
    jobs = jobs_table(report.jobs[:_MOST_JOBS])
    return [*sections, Section("Jobs with the most waste", [jobs])]


def _groups_section(report: FleetReport, by: str, most: int, *, unfolds: bool = False) -> Section:
    """Groups by waste; ``unfolds``: with the jobs of each."""
    rows = report.groups[by]
    labels = {job.job: _job_label(job) for job in report.jobs} if by == "job" else {}
    cells = [_group_cells(row, labels.get(row.key, row.key)) for row in rows[:most]]
    columns = [
        Column(by), Column("jobs", True, 3), Column("GPU-h", True), Column("wasted", True),
        Column("busy", True, 1), Column("mostly"), Column("", rank=2),
    ]  # fmt: skip
    more = len(rows) - most
    parts: list[Part] = [Table(columns, cells)]
    if more > 0:
        parts.append(Paragraph(f"and {more} more {by}s", tone="dim"))
    for row in rows[:most] if unfolds else ():
        own = [job for job in report.jobs if (job.user or "?") == row.key][:_MOST_JOBS]
        parts += [Folded(f"jobs of {row.key}", [jobs_table(own)])] if own else []
    return Section(f"{by.capitalize()}s", parts)


def _job_label(job: FleetJobRow) -> str:
    return " ".join(part for part in (job.job, job.user) if part)


def _group_cells(row: GroupRow, label: str) -> list[Line]:
    account, hours = row.account, row.account.gpu_hours
    wasted = hours["wasted"] / hours["allocated"] if hours["allocated"] else 0.0
    most = max(FLEET_STATES[1:], key=lambda state: account.gpu_ms[state])
    return [
        label,
        f"{row.jobs:,}",
        format_hours(hours["allocated"]),
        format_hours(hours["wasted"]),
        format_percent(row.busy) if row.busy is not None else "?",
        Span(most, TONES[most]) if account.gpu_ms[most] else "-",
        Span("█" * round(wasted * 10), "bad"),
    ]


def _causes_section(report: FleetReport, most: int) -> Section:
    cells: list[list[Line]] = [
        [row.cause or "-", format_hours(row.gpu_hours), f"{row.jobs:,}",
         [f"{row.title} ", Span(row.fix or "", "dim")]]
        for row in report.causes[:most]
    ]  # fmt: skip
    columns = [Column("cause"), Column("GPU-h", True), Column("jobs", True), Column("")]
    return Section("Causes of starved time", [Table(columns, cells)])


def _coverage(report: FleetReport) -> Section:
    coverage = report.coverage
    ledgers, meters = (
        ", ".join(name.rpartition("/")[2] for name in names) or "none"
        for names in (coverage.ledgers, coverage.meters)
    )
    share = f"telemetry covers {format_percent(coverage.telemetry)} of the allocated time"
    lines = [
        describe_capacity(report.capacity),
        share if report.total.gpu_hours["allocated"] >= LEAST_HOURS else "",
        f"ledgers: {ledgers}; meters: {meters}",
        *(f"{count:,} {what}" for what, count in coverage.counts.items()),
    ]
    warnings = list(coverage.notes)
    if coverage.disagreeing_hours:
        warnings.append(
            f"two meters disagree in {coverage.disagreeing_hours:,} GPU-hours; the one with more "
            "readings of an hour counts, else the one named first"
        )
    return Section("Data sources", [
        Items([Span(line, "dim") for line in lines if line]),
        *(Paragraph(text, tone="caution") for text in warnings),
    ])  # fmt: skip


def jobs_table(jobs: Sequence[FleetJobRow]) -> Part:
    """A table of jobs."""
    if not jobs:
        return Paragraph("no job held a GPU", tone="dim")
    columns = [
        Column("job"), Column("user"), Column("state", rank=3), Column("GPUs", True, 2),
        Column("GPU-h", True), Column("wasted", True), Column("busy", True, 1), Column("mostly"),
        Column("cause", rank=4),
    ]  # fmt: skip
    return Table(columns, [_job_cells(job) for job in jobs])


def _job_cells(job: FleetJobRow) -> list[Line]:
    hours = job.account.gpu_hours
    most = max(FLEET_STATES, key=lambda state: job.account.gpu_ms[state])
    return [
        job.job if job.name in (None, job.job) else [f"{job.job} ", Span(job.name or "", "dim")],
        job.user or "?",
        job.state,
        f"{job.gpus}" if job.share == 1 else f"{job.gpus} × {job.share:.2g}",
        format_hours(hours["allocated"]),
        format_hours(hours["wasted"]),
        format_percent(job.busy) if job.busy is not None else "?",
        Span(most, TONES[most]),
        job.cause or "",
    ]


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
    if 0 < hours < LEAST_HOURS:
        return f"<{LEAST_HOURS}"
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.1f}" if hours >= 10 else f"{hours:.2f}"
