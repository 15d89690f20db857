"""The page of a fleet: totals, a heat map of its GPUs, users with their jobs, causes, advice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from whyidle.exporters._fleet_page import (
    MEANINGS,
    describe_capacity,
    describe_money,
    format_hours,
)
from whyidle.exporters._html.element import Markup, render_table, tag
from whyidle.exporters._html.page import assemble_plain_page
from whyidle.exporters._html.ranks import LEVELS
from whyidle.exporters._number_format import format_percent
from whyidle.model.fleet import (
    FLEET_STATES,
    Account,
    Advice,
    CauseRow,
    FleetJobRow,
    FleetReport,
    FleetState,
    GroupRow,
    HeatRow,
)

FILLS: Final[dict[FleetState, str]] = {
    "useful": "compute", "starved": "host", "idle-held": "sync",
    "idle-reserved": "communication", "failed": "input", "unknown": "unknown",
}  # fmt: skip
"""state -> the bucket whose colour it has: these are distinguishable with every dichromacy"""
WIDTH: Final = 1040
_NAMES: Final = 170
_MOST_GROUPS: Final = 40
_MOST_JOBS: Final = 20


def render_page(report: FleetReport) -> str:
    """Render a self-contained HTML page."""
    about = f"fleet · {report.since[:10]} to {report.until[:10]}"
    hours = report.total.gpu_hours
    title = f"{format_hours(hours['allocated'])} GPU-hours"
    return assemble_plain_page(title, about, _render_sections(report), report.whyidle)


def _render_sections(report: FleetReport) -> list[Markup]:
    sections = [_render_summary(report)]
    if report.advice:
        items = [_render_advice(one) for one in report.advice]
        sections.append(tag("section", tag("h2", "What to change"), items))
    if report.heat:
        sections.append(_render_heat(report))
    sections.append(_render_groups("Users", report.groups["user"], report.jobs))
    if report.causes:
        sections.append(_render_causes(report.causes))
    for title, key in (("Partitions", "partition"), ("Nodes", "node")):
        if any(row.key != "?" for row in report.groups[key]):
            sections.append(_render_groups(title, report.groups[key], []))
    sections.append(
        tag("section", tag("h2", "Jobs with the most waste"), _jobs_table(report.jobs[:_MOST_JOBS]))
    )
    return [*sections, _render_coverage(report)]


def _render_summary(report: FleetReport) -> Markup:
    hours = report.total.gpu_hours
    share = hours["wasted"] / hours["allocated"] if hours["allocated"] else 0.0
    headline = (
        f"{format_hours(hours['allocated'])} GPU-hours allocated, {format_percent(share)} wasted"
    )
    rows = [
        tag(
            "tr",
            tag("td", tag("i", class_=f"dot {FILLS[state]}"), " ", state),
            tag("td", format_hours(hours[state]), class_="n"),
            tag("td", format_percent(_share(report.total, state)), class_="n"),
            tag("td", MEANINGS[state]),
        )
        for state in FLEET_STATES
    ]
    heads = ["state", tag("th", "GPU-hours", class_="n"), tag("th", "share", class_="n"), ""]
    facts = f"{report.job_count:,} jobs"
    money = describe_money(report)
    return tag(
        "section",
        tag("h1", headline),
        tag("p", f"{facts} · {money}" if money else facts),
        _render_bar(report.total, WIDTH, 30),
        render_table(heads, rows),
    )


def _share(account: Account, state: FleetState) -> float:
    return account.gpu_ms[state] / (account.allocated_gpu_ms or 1)


def _render_bar(account: Account, width: int, height: int) -> Markup:
    at, parts = 0.0, []
    for state in FLEET_STATES:
        length = _share(account, state) * width
        if length:
            title = tag("title", f"{state} {format_percent(_share(account, state))}")
            parts.append(
                tag(
                    "rect", title, x=f"{at:.1f}", y=0, width=f"{length:.1f}", height=height,
                    class_=f"fill-{FILLS[state]}",
                )
            )  # fmt: skip
        at += length
    label = ", ".join(f"{state} {format_percent(_share(account, state))}" for state in FLEET_STATES)
    return tag(
        "svg", parts, viewBox=f"0 0 {width} {height}", width="100%" if width == WIDTH else width,
        height=None if width == WIDTH else height, role="img", aria_label=label,
    )  # fmt: skip


def _render_advice(advice: Advice) -> Markup:
    gain = "" if advice.gpu_hours is None else f"{format_hours(advice.gpu_hours)} GPU-hours · "
    evidence = "; ".join(advice.evidence)
    return tag(
        "p",
        tag("b", advice.text),
        tag("br"),
        tag("small", f"{gain}{advice.confidence} confidence · {evidence}"),
    )


def _render_heat(report: FleetReport) -> Markup:
    """One row a GPU or node, one column a step: the deeper, the busier; free time is left empty."""
    columns = max(len(row.allocated) for row in report.heat)
    cell = (WIDTH - _NAMES) / columns
    height = 15 if len(report.heat) > 24 else 20
    parts: list[Markup] = []
    for number, row in enumerate(report.heat):
        top = number * height
        label = row.label if len(row.label) < 24 else f"{row.label[:22]}…"
        parts.append(tag("text", label, x=0, y=top + height - 5, fill="currentColor", font_size=12))
        parts += _heat_cells(row, top, cell, height, report)
    picture = tag(
        "svg", parts, viewBox=f"0 0 {WIDTH} {height * len(report.heat)}", width="100%", role="img",
        aria_label="Busy share of each GPU by hour",
    )  # fmt: skip
    shades = tag(
        "svg",
        [tag("rect", x=n * 14, y=1, width=14, height=11, class_=f"heat{n}") for n in range(LEVELS)],
        width=14 * LEVELS, height=13, role="img", aria_label="0 to 100 %",
    )  # fmt: skip
    unit = "hour" if report.heat_step_h == 1 else f"{report.heat_step_h} hours"
    legend = tag(
        "p", "busy: 0 % ", shades, " 100 % · ", tag("i", class_="dot sync"),
        " allocated and idle · ", tag("i", class_="dot unknown"),
        f" no telemetry · empty: free · a column is one {unit}, UTC", class_="note",
    )  # fmt: skip
    return tag("section", tag("h2", "GPUs by hour"), picture, legend)


def _heat_cells(
    row: HeatRow, top: int, cell: float, height: int, report: FleetReport
) -> Iterable[Markup]:
    """Neighbours of the same look are one rectangle, which keeps pages of large fleets small."""
    looks = [
        _look(busy) if held else "" for held, busy in zip(row.allocated, row.busy, strict=True)
    ]
    begin = 0
    for at in range(1, len(looks) + 1):
        if at < len(looks) and looks[at] == looks[begin]:
            continue
        if looks[begin]:
            shares = [busy for busy in row.busy[begin:at] if busy is not None]
            mean = format_percent(sum(shares) / len(shares)) if shares else "not measured"
            hours = begin * report.heat_step_h
            yield tag(
                "rect", tag("title", f"{row.label}, from hour {hours}: busy {mean}"),
                x=f"{_NAMES + begin * cell:.1f}", y=top + 1, width=f"{(at - begin) * cell:.1f}",
                height=height - 2, class_=looks[begin],
            )  # fmt: skip
        begin = at


def _look(busy: float | None) -> str:
    if busy is None:
        return "fill-unknown"
    if busy < 0.005:
        return "fill-sync"
    return f"heat{min(LEVELS - 1, int(busy * LEVELS))}"


def _render_groups(title: str, rows: Sequence[GroupRow], jobs: Sequence[FleetJobRow]) -> Markup:
    """A table of groups by waste; of users, their jobs unfold."""
    parts = [_group_row(row) for row in rows[:_MOST_GROUPS]]
    heads = [
        title[:-1], tag("th", "jobs", class_="n"), tag("th", "GPU-hours", class_="n"),
        tag("th", "wasted", class_="n"), tag("th", "busy", class_="n"), "",
    ]  # fmt: skip
    unfolded = []
    for row in rows[:_MOST_GROUPS]:
        own = [job for job in jobs if (job.user or "?") == row.key][:_MOST_JOBS]
        if own:
            unfolded.append(tag("details", tag("summary", f"jobs of {row.key}"), _jobs_table(own)))
    more = len(rows) - _MOST_GROUPS
    rest = tag("p", f"and {more} more", class_="note") if more > 0 else None
    return tag("section", tag("h2", title), render_table(heads, parts), rest, unfolded)


def _group_row(row: GroupRow) -> Markup:
    hours = row.account.gpu_hours
    return tag(
        "tr",
        tag("td", row.key),
        tag("td", f"{row.jobs:,}", class_="n"),
        tag("td", format_hours(hours["allocated"]), class_="n"),
        tag("td", format_hours(hours["wasted"]), class_="n"),
        tag("td", "?" if row.busy is None else format_percent(row.busy), class_="n"),
        tag("td", _render_bar(row.account, 240, 14)),
    )


def _jobs_table(jobs: Sequence[FleetJobRow]) -> Markup:
    heads = [
        "job", "user", "state", tag("th", "GPUs", class_="n"), tag("th", "GPU-hours", class_="n"),
        tag("th", "wasted", class_="n"), tag("th", "busy", class_="n"), "", "cause",
    ]  # fmt: skip
    rows = [
        tag(
            "tr",
            tag("td", job.job, tag("br"), tag("small", job.name if job.name != job.job else None)),
            tag("td", job.user or "?"),
            tag("td", job.state),
            tag(
                "td",
                str(job.gpus) if job.share == 1 else f"{job.gpus} × {job.share:.2g}",
                class_="n",
            ),
            tag("td", format_hours(job.account.gpu_hours["allocated"]), class_="n"),
            tag("td", format_hours(job.account.gpu_hours["wasted"]), class_="n"),
            tag("td", "?" if job.busy is None else format_percent(job.busy), class_="n"),
            tag("td", _render_bar(job.account, 160, 14)),
            tag("td", job.cause or ""),
        )
        for job in jobs
    ]
    return render_table(heads, rows)


def _render_causes(causes: Sequence[CauseRow]) -> Markup:
    rows = [
        tag(
            "tr",
            tag("td", row.cause or "-"),
            tag("td", format_hours(row.gpu_hours), class_="n"),
            tag("td", f"{row.jobs:,}", class_="n"),
            tag("td", row.title, tag("br"), tag("small", row.fix))
            if row.fix
            else tag("td", row.title),
        )
        for row in causes
    ]
    heads = ["cause", tag("th", "GPU-hours", class_="n"), tag("th", "jobs", class_="n"), ""]
    return tag("section", tag("h2", "Causes of starved time"), render_table(heads, rows))


def _render_coverage(report: FleetReport) -> Markup:
    coverage = report.coverage
    lines = [
        f"Telemetry covers {format_percent(coverage.telemetry)} of the allocated time.",
        f"Ledgers: {', '.join(coverage.ledgers)}. Meters: {', '.join(coverage.meters) or 'none'}.",
        f"{describe_capacity(report.capacity)}.".capitalize().removeprefix("."),
        *(f"{count:,} {what}." for what, count in coverage.counts.items()),
        *coverage.notes,
    ]
    if coverage.disagreeing_hours:
        lines.append(f"Two meters disagree in {coverage.disagreeing_hours:,} GPU-hours.")
    notes = [tag("p", line, class_="note") for line in lines if line]
    return tag("section", tag("h2", "What this rests on"), notes)
