"""The page of several runs side by side: a table, and one picture of steps and attributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from whyidle.exporters._html.element import Markup, render_table, tag
from whyidle.exporters._html.page import assemble_plain_page
from whyidle.exporters._number_format import format_percent, format_seconds
from whyidle.exporters._palette import LOOKS
from whyidle.exporters._run_table import (
    bucket_shares,
    describe_finding,
    summarize_table,
    table_notes,
    visible_buckets,
    visible_columns,
)
from whyidle.model.buckets import Bucket
from whyidle.model.run_table import RunRow, RunTable

WIDTH: Final = 1040
_ROW: Final = 46
_BAR: Final = 24
_NAMES: Final = 190
_SPREAD: Final = 330
"""columns of the distributions, right of the bars"""
_POINTS: Final = 400
"""steps drawn per run; of more, every n-th"""


def render_page(table: RunTable) -> str:
    """Render a self-contained HTML page."""
    names = " · ".join(row.name for row in table.runs)
    return assemble_plain_page(summarize_table(table), names, render_sections(table), table.whyidle)


def render_sections(table: RunTable) -> list[Markup]:
    """Render the table without its page, for another frame."""
    columns = visible_columns(table)
    rows = [
        tag(
            "tr",
            [
                tag("td", column.cell(row), class_="n" if i else None)
                for i, column in enumerate(columns)
            ],
        )
        for row in table.runs
    ]
    heads = [tag("th", column.title, class_="n" if i else None) for i, column in enumerate(columns)]
    return [
        tag("section", tag("h1", summarize_table(table)), render_table(heads, rows)),
        tag(
            "section",
            tag("h2", "Where the step goes"),
            _render_picture(table),
            _render_legend(table),
        ),
        tag(
            "section",
            tag("h2", "First finding of each run"),
            [_render_finding(r) for r in table.runs],
        ),
        tag("section", [tag("p", note, class_="note") for note in table_notes(table)]),
    ]


def _render_finding(row: RunRow) -> Markup:
    source = tag("small", " ".join(row.sources))
    return tag("p", tag("b", row.name), ": ", describe_finding(row), tag("br"), source)


def _render_legend(table: RunTable) -> Markup:
    keys = [
        tag(
            "span",
            tag("i", class_=f"dot {key}"),
            LOOKS[key].title,
            " ",
            tag("small", LOOKS[key].means),
        )
        for key in visible_buckets(table)
    ]
    return tag("p", [Markup(f"{key} &ensp; ") for key in keys], class_="note")


def _render_picture(table: RunTable) -> Markup:
    """Draw a bar per run, as long as its step and divided by bucket, and beside it every step."""
    longest = max((row.step_s or 0.0 for row in table.runs), default=0.0)
    tallest = max((row.p95_s or row.step_s or 0.0 for row in table.runs), default=0.0) * 1.1
    height = _ROW * len(table.runs) + 24
    parts: list[Markup] = []
    for number, row in enumerate(table.runs):
        top = 20 + number * _ROW
        length = (row.step_s or 0.0) / longest if longest else 1.0
        parts += _draw_bar(row, top, length * (WIDTH - _NAMES - _SPREAD - 100))
        parts += _draw_steps(row, top, tallest)
    axis = [
        tag("text", f"every steady step, 0 to {format_seconds(tallest)}", x=WIDTH - _SPREAD, y=10)
    ]
    return tag(
        "svg",
        tag("g", axis if tallest else [], class_="axis", fill="currentColor", font_size=12),
        parts,
        viewBox=f"0 0 {WIDTH} {height}",
        width="100%",
        role="img",
        aria_label="Attribution and steps of each run",
    )


def _draw_bar(row: RunRow, top: int, length: float) -> list[Markup]:
    parts, at = [_label(row.name[:28], 0, top + 17)], float(_NAMES)
    for bucket, share in _ordered_shares(row):
        title = tag("title", f"{LOOKS[bucket].title} {format_percent(share)}")
        width = share * length
        parts.append(
            tag(
                "rect",
                title,
                x=f"{at:.1f}",
                y=top,
                width=f"{width:.1f}",
                height=_BAR,
                class_=f"fill-{bucket}",
            )
        )
        at += width
    return [*parts, _label(format_seconds(row.step_s), at + 6, top + 17)]


def _ordered_shares(row: RunRow) -> list[tuple[Bucket, float]]:
    shares = bucket_shares(row)
    return [(bucket, shares[bucket]) for bucket in LOOKS if shares[bucket] > 0]


def _draw_steps(row: RunRow, top: int, tallest: float) -> list[Markup]:
    """Draw each step as a tick, and the median as a line."""
    if not tallest:
        return []
    scale, left = (_SPREAD - 10) / tallest, WIDTH - _SPREAD
    ticks = "".join(
        f"M{left + min(second, tallest) * scale:.1f} {top + 4}v{_BAR - 8}"
        for second in _thin_out(row.step_times_s)
    )
    parts = [tag("path", d=ticks, stroke="currentColor", stroke_width=1.5, opacity=0.16)]
    if row.p50_s is not None:
        title = tag("title", f"median {format_seconds(row.p50_s)}, {row.steps} steps")
        x = f"{left + row.p50_s * scale - 1:.1f}"
        parts.append(
            tag("rect", title, x=x, y=top, width=2, height=_BAR, class_="fill-interruption")
        )
    return parts


def _thin_out(times: Sequence[float]) -> Sequence[float]:
    return times[:: max(1, len(times) // _POINTS)]


def _label(text: str, x: float, y: int) -> Markup:
    return tag("text", text, x=f"{x:.1f}", y=y, fill="currentColor", font_size=13)
