"""The page of a ledger that was replayed under other policies: bars of GPUs and of waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from whyidle.exporters._fleet_what_if import (
    HEADS,
    describe_reproduction,
    describe_slowdowns,
    result_cells,
    summarize_what_if,
)
from whyidle.exporters._html.element import Markup, render_table, tag
from whyidle.exporters._html.page import assemble_plain_page
from whyidle.exporters._number_format import format_seconds
from whyidle.model.fleet_what_if import WhatIfReport

WIDTH: Final = 900
_LEFT: Final = 250
_ROW: Final = 30


def render_page(report: WhatIfReport) -> str:
    """Render a self-contained HTML page."""
    rows = [tag("tr", [tag("td", c) for c in result_cells(one)]) for one in report.results]
    bars = [
        (one.name, one.pile.devices - one.pile.stranded, one.pile.stranded, one.pile.left_gpus)
        for one in report.results
    ]
    waits = [(one.name, one.queue.mean_wait_s) for one in report.results if one.queue]
    counted = [f"{count:,} {what}" for what, count in report.counts.items()]
    sections = [
        tag(
            "section",
            tag("h1", summarize_what_if(report)),
            tag("p", describe_reproduction(report.reproduction)),
        ),
        tag(
            "section",
            tag("h2", "All jobs at once: GPUs by policy"),
            _draw_piles(bars, report.gpus),
            tag("p", "filled: used; pale: stranded; outlined: asked by jobs that do not fit; line: "
                "GPUs of the cluster", class_="note"),
        ),
        tag("section", tag("h2", "Mean wait by policy"), _draw_waits(waits)) if waits else None,
        tag("section", tag("h2", "Policies"), render_table(HEADS, rows)),
        tag(
            "section",
            [tag("p", t, class_="note") for t in (*describe_slowdowns(report), *report.notes)],
            [tag("p", text, class_="note") for text in counted],
        ),
    ]  # fmt: skip
    about = ", ".join(report.ledgers)
    kept = [section for section in sections if section is not None]
    return assemble_plain_page("What if: other policies", about, kept, report.whyidle)


def _draw_piles(bars: Sequence[tuple[str, float, float, float]], gpus: int) -> Markup:
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
    return _frame(parts, len(bars), "GPUs that all jobs take, by policy")


def _draw_waits(waits: Sequence[tuple[str, float]]) -> Markup:
    most = max((wait for _, wait in waits), default=1.0) * 1.2 or 1.0
    parts = []
    for row, (name, wait) in enumerate(waits):
        wide = (WIDTH - _LEFT) * wait / most
        text = format_seconds(wait)
        parts += [_label(name, row), _bar(_LEFT, row, wide, f"{name}: {text}", "used")]
        parts.append(_label(text, row, _LEFT + wide + 6))
    return _frame(parts, len(waits), "Mean wait, by policy")


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
