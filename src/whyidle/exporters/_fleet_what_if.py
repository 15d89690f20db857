"""A ledger that was replayed under other policies, as sections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from whyidle.exporters import _number_format as words
from whyidle.exporters._html.element import Markup, tag
from whyidle.exporters._sections import (
    Column,
    Headline,
    Items,
    Line,
    Paragraph,
    Part,
    Picture,
    Section,
    Table,
)
from whyidle.model.fleet_what_if import PolicyResult, Reproduction, WhatIfReport

COLUMNS: Final = (
    Column("policy"),
    Column("GPUs used", True),
    Column("left out", True, 1),
    Column("stranded", True),
    Column("mean wait", True),
    Column("95th", True, 3),
    Column("allocated", True),
    Column("blocked", True, 2),
)
MEANING: Final = (
    "GPUs used, left out and stranded are of all jobs at once; waits, the allocated share and the "
    "time in which the first job waits although enough GPUs are free elsewhere are of the jobs in "
    "time."
)
WIDTH: Final = 900
_LEFT: Final = 250
_ROW: Final = 30
_PILES: Final = (
    "filled: used; pale: stranded; outlined: asked by jobs that do not fit; line: GPUs of the "
    "cluster"
)


def summarize_what_if(report: WhatIfReport) -> str:
    """What the jobs ask for, and what the cluster has."""
    return (
        f"{report.jobs:,} jobs ask for {report.asked_devices:,} whole GPUs, or "
        f"{report.asked_shares:,.1f} by the shares that they declare; the cluster has "
        f"{report.gpus:,} on {report.nodes:,} nodes."
    )


def describe_reproduction(made: Reproduction) -> str:
    """Whether the simulator makes the waits that happened."""
    if made.why is not None:
        return f"Waits are not predicted: {made.why}."
    return (
        f"The simulator makes today's mean wait of {words.format_seconds(made.recorded_wait_s)} "
        f"as {words.format_seconds(made.simulated_wait_s)} with {made.policy}: an error of "
        f"{words.format_percent(made.error)}."
    )


def result_cells(result: PolicyResult) -> list[str]:
    """The cells of a row."""
    pile, queue = result.pile, result.queue
    return [
        result.name,
        f"{pile.devices:,}",
        f"{pile.left:,} jobs" if pile.left else "none",
        f"{pile.stranded:,.1f}",
        words.format_seconds(queue.mean_wait_s if queue else None),
        words.format_seconds(queue.p95_wait_s if queue else None),
        words.format_percent(queue.allocated if queue else None),
        words.format_percent(queue.blocked if queue else None),
    ]


def describe_slowdowns(report: WhatIfReport) -> list[str]:
    """By how much jobs that share a device take longer, where it is known."""
    return [
        f"{one.name}: jobs that share a device take {one.slowdown[0]:.2f} to "
        f"{one.slowdown[1]:.2f} times as long"
        for one in report.results
        if one.slowdown is not None
    ]


def what_if_parts(report: WhatIfReport) -> list[Part]:
    """GPUs and waits by policy, as pictures and as a table."""
    cells: list[list[Line]] = [list(result_cells(one)) for one in report.results]
    notes = [*describe_slowdowns(report), *report.notes]
    notes += [f"{count:,} {what}" for what, count in report.counts.items()]
    return [
        Headline(summarize_what_if(report)),
        Paragraph(describe_reproduction(report.reproduction)),
        Picture(lambda: draw_piles(report)),
        Picture(lambda: draw_waits(report)),
        Section("Policies", [Table(COLUMNS, cells), Paragraph(MEANING, tone="dim")]),
        Section("", [Items(notes)]),
    ]


def draw_piles(report: WhatIfReport) -> Markup:
    """Draw the GPUs that all jobs take at once, by policy."""
    gpus = report.gpus
    bars = [
        (one.name, one.pile.devices - one.pile.stranded, one.pile.stranded, one.pile.left_gpus)
        for one in report.results
    ]
    most = max([gpus, *(sum(parts) for _, *parts in bars)], default=1) * 1.05
    parts = []
    for row, (name, *lengths) in enumerate(bars):
        parts.append(_label(name, row))
        left = float(_LEFT)
        for length, style in zip(lengths, ("used", "stranded", "outside"), strict=True):
            wide = (WIDTH - _LEFT) * length / most
            title = f"{name}: {length:,.1f} GPUs {style}"
            parts.append(_bar(left, row, wide, title, style))
            left += wide
    x = _LEFT + (WIDTH - _LEFT) * gpus / most
    parts.append(
        tag("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=0, y2=_ROW * len(bars), stroke="currentColor")
    )
    picture = _frame(parts, len(bars), "GPUs that all jobs take, by policy")
    title = tag("h2", "All jobs at once: GPUs by policy")
    return tag("section", title, picture, tag("p", _PILES, class_="note"))


def draw_waits(report: WhatIfReport) -> Markup | None:
    """Draw the mean wait by policy; None if no wait is predicted."""
    waits = [(one.name, one.queue.mean_wait_s) for one in report.results if one.queue]
    if not waits:
        return None
    most = max((wait for _, wait in waits), default=1.0) * 1.2 or 1.0
    parts = []
    for row, (name, wait) in enumerate(waits):
        wide = (WIDTH - _LEFT) * wait / most
        text = words.format_seconds(wait)
        parts += [_label(name, row), _bar(_LEFT, row, wide, f"{name}: {text}", "used")]
        parts.append(_label(text, row, _LEFT + wide + 6))
    picture = _frame(parts, len(waits), "Mean wait, by policy")
    return tag("section", tag("h2", "Mean wait by policy"), picture)


def _frame(parts: Sequence[Markup], rows: int, label: str) -> Markup:
    box = f"0 0 {WIDTH} {_ROW * rows + 4}"
    return tag(
        "svg", parts, viewBox=box, width="100%", style=f"max-width:{WIDTH}px", role="img",
        aria_label=label,
    )  # fmt: skip


def _bar(x: float, row: int, width: float, title: str, style: str) -> Markup:
    looks: dict[str, str | float] = {"class_": "fill-compute"}
    if style == "stranded":
        looks = {"class_": "fill-compute", "fill_opacity": 0.35}
    elif style == "outside":
        looks = {"fill": "none", "stroke": "currentColor", "stroke_dasharray": "3 3"}
    return tag(
        "rect", tag("title", title), x=f"{x:.1f}", y=row * _ROW + 5, width=f"{max(width, 0):.1f}",
        height=_ROW - 10, **looks,
    )  # fmt: skip


def _label(text: str, row: int, x: float = 0.0) -> Markup:
    return tag(
        "text", text, x=f"{x:.1f}", y=row * _ROW + _ROW / 2 + 4, fill="currentColor", font_size=13
    )
