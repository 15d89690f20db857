"""The page of one command over its runs: a picture of steps, shares and utilization, and a
table."""

from __future__ import annotations

import shlex
from typing import Final

from whyidle.exporters._html.element import Markup, render_table, tag
from whyidle.exporters._html.page import assemble_plain_page
from whyidle.exporters._number_format import NONE, format_percent, format_seconds
from whyidle.exporters._palette import LOOKS
from whyidle.exporters._run_history import (
    describe_change,
    format_day,
    history_buckets,
    row_shares,
    summarize_history,
)
from whyidle.model.run_history import HistoryRow, RunHistory

WIDTH: Final = 1040
_HEIGHT: Final = 260
_LEFT: Final = 70
_TOP: Final = 24
_WIDEST: Final = 60.0
"""columns of a run's bar, if there are few"""


def render_page(history: RunHistory) -> str:
    """Render a self-contained HTML page."""
    return assemble_plain_page(
        summarize_history(history),
        shlex.join(history.words),
        _render_sections(history),
        history.whyidle,
    )


def _render_sections(history: RunHistory) -> list[Markup]:
    changes = [tag("p", describe_change(change)) for change in history.changes[:-1]]
    heads = ("run", "when", "step", "expected", "verdict", "first finding", "busy", "")
    rows = [_render_row(row) for row in reversed(history.rows)]
    notes = [tag("p", note, class_="note") for note in history.notes]
    return [
        tag("section", tag("h1", summarize_history(history)), changes),
        tag(
            "section",
            tag("h2", "Step time and where it goes, by run"),
            _render_picture(history),
            _render_legend(history),
        ),
        tag("section", tag("h2", "Runs, the newest first"), render_table(heads, rows)),
        tag("section", notes),
    ]


def _render_row(row: HistoryRow) -> Markup:
    expected = NONE
    if row.expected is not None:
        bounds = (row.expected.low, row.expected.high)
        expected = " to ".join(format_seconds(value) for value in bounds)
    cells = (
        row.run,
        format_day(row.created),
        format_seconds(row.step_s),
        expected,
        row.state,
        row.cause or NONE,
        format_percent(row.busy),
        row.kind or "",
    )
    return tag("tr", [tag("td", cell) for cell in cells])


def _render_legend(history: RunHistory) -> Markup:
    keys = [
        tag("span", tag("i", class_=f"dot {key}"), LOOKS[key].title)
        for key in history_buckets(history)
    ]
    text = "line: what earlier runs let one expect; dots: share of time that the device is busy"
    return tag("p", [Markup(f"{key} &ensp; ") for key in keys], tag("small", text), class_="note")


def _render_picture(history: RunHistory) -> Markup:
    """Draw a bar per run, as high as its step and divided by bucket, with its expected range."""
    tops = [
        max(row.step_s or 0.0, row.expected.high if row.expected else 0.0) for row in history.rows
    ]
    tallest = max(tops, default=0.0) * 1.05
    column = min(_WIDEST, (WIDTH - _LEFT) / max(len(history.rows), 1))
    parts = [
        _text(format_seconds(tallest) if tallest else "", 0, _TOP),
        _text("0", 0, _TOP + _HEIGHT),
    ]
    for number, row in enumerate(history.rows):
        if tallest:
            parts += _draw_run(row, _LEFT + number * column, column, tallest)
    return tag(
        "svg",
        parts,
        viewBox=f"0 0 {WIDTH} {_TOP + _HEIGHT + 24}",
        width="100%",
        role="img",
        aria_label="Step time of each run",
    )


def _draw_run(row: HistoryRow, left: float, width: float, tallest: float) -> list[Markup]:
    parts, floor = [], float(_TOP + _HEIGHT)
    scale, step = _HEIGHT / tallest, row.step_s or 0.0
    bottom = floor
    for bucket in LOOKS:
        share = row_shares(row)[bucket]
        if share <= 0 or not step:
            continue
        height = share * step * scale
        bottom -= height
        title = f"{format_day(row.created)}: {format_seconds(step)}, {LOOKS[bucket].title} "
        parts.append(
            tag(
                "rect",
                tag("title", title + format_percent(share)),
                x=f"{left + width * 0.1:.1f}",
                y=f"{bottom:.1f}",
                width=f"{width * 0.8:.1f}",
                height=f"{height:.1f}",
                class_=f"fill-{bucket}",
            )
        )
    if row.expected is not None:
        for value in (row.expected.low, row.expected.high):
            path = f"M{left:.1f} {floor - value * scale:.1f}h{width:.1f}"
            parts.append(tag("path", d=path, stroke="currentColor", opacity=0.7))
    if row.busy is not None:
        y = floor - row.busy * _HEIGHT
        parts.append(
            tag("circle", cx=f"{left + width / 2:.1f}", cy=f"{y:.1f}", r=2.5, fill="currentColor")
        )
    if row.kind is not None:
        parts.append(_text(row.kind, left, bottom - 6))
    return parts


def _text(text: str, x: float, y: float) -> Markup:
    return tag("text", text, x=f"{x:.1f}", y=f"{y:.1f}", fill="currentColor", font_size=12)
