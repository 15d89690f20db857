"""Several runs side by side, as sections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from whyidle.model.buckets import BUCKETS, Bucket
from whyidle.model.documents.comparison import StepChange
from whyidle.model.documents.run_table import RunRow, RunTable
from whyidle.reports import _number_format as words
from whyidle.reports._html.element import WIDTH, Markup, tag
from whyidle.reports._html.sections import render_keys
from whyidle.reports._palette import LOOKS
from whyidle.reports._relative_paths import shorten_place
from whyidle.reports._sections import (
    BarRow,
    Bars,
    Column,
    Headline,
    Items,
    Line,
    Paragraph,
    Part,
    Picture,
    Section,
    Span,
    Table,
)
from whyidle.reports._text_bar import SEEN


class Measure(NamedTuple):
    """A column of the table; ``rank`` is its importance where the page is narrow."""

    title: str
    cell: Callable[[RunRow], str]
    rank: int


_ROW: Final = 46
_BAR: Final = 24
_NAMES: Final = 190
_SPREAD: Final = 330
"""columns of the distributions, right of the bars"""
HOST_TIME = "host time: Python and the framework, while the device waits"


def _format_range(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return words.NONE
    first, second = words.format_seconds(low), words.format_seconds(high)
    value, _, unit = first.partition(" ")
    return f"{value if second.endswith(f' {unit}') else first} to {second}"


def _format_rate(value: float | None) -> str:
    return words.NONE if value is None else words.format_digits(value)


def _format_host(row: RunRow) -> str:
    if row.host_s is None:
        return words.format_percent(row.attribution.host)
    return f"{words.format_seconds(row.host_s)} ({words.format_percent(row.attribution.host)})"


def format_change(change: StepChange | None) -> str:
    """The ratio of step times with half of its 95 % interval."""
    if change is None:
        return ""
    return f"{change.ratio:.2f} ± {(change.high - change.low) / 2:.2f}"


_COLUMNS: Final = (
    Measure("run", lambda row: row.name, 0),
    Measure("first step", lambda row: words.format_seconds(row.first_step_s), 4),
    Measure("step", lambda row: words.format_seconds(row.step_s), 1),
    Measure("median to 95%", lambda row: _format_range(row.p50_s, row.p95_s), 6),
    Measure("samples/s", lambda row: _format_rate(row.samples_per_s), 2),
    Measure("host memory", lambda row: words.format_bytes(row.host_memory_peak_bytes), 5),
    Measure("device memory", lambda row: words.format_bytes(row.device_memory_peak_bytes), 5),
    Measure("host time", _format_host, 3),
    Measure("time ratio", lambda row: format_change(row.change), 1),
)


def visible_columns(table: RunTable) -> list[Measure]:
    """The columns in which a run has a value."""
    return [c for c in _COLUMNS if any(c.cell(row) not in ("", words.NONE) for row in table.runs)]


def summarize_table(table: RunTable) -> str:
    """The shortest step, in one sentence."""
    timed = [row for row in table.runs if row.step_s is not None]
    if len(timed) < 2:
        return "Step times cannot be compared: fewer than two runs have step boundaries."
    best = min(timed, key=lambda row: row.step_s or 0.0)
    head = f"{best.name} has the shortest step, {words.format_seconds(best.step_s)}"
    if best.change is None:
        return f"{head}; it is the baseline."
    change = best.change
    factor = words.format_factor(1 / change.ratio)
    spread = f"95% interval {1 / change.high:.2f} to {1 / change.low:.2f}"
    doubt = "" if change.real else ", which is not significant"
    return f"{head}: {factor}× as fast as {table.baseline} ({spread}){doubt}."


def describe_finding(row: RunRow) -> str:
    """The first finding of a run with its place, or the first clause of its verdict."""
    if row.cause is None:
        return row.headline.partition("; ")[0]
    place = f" ({words.format_place(shorten_place(row.where, row.folder))})" if row.where else ""
    return f"{row.finding}{place}"


def bucket_shares(row: RunRow) -> dict[Bucket, float]:
    """The attribution by bucket."""
    return {bucket: getattr(row.attribution, bucket) for bucket in BUCKETS}


def visible_buckets(table: RunTable) -> list[Bucket]:
    """The buckets that have a part of a run's step, in drawing order."""
    return [b for b in LOOKS if any(bucket_shares(row)[b] >= SEEN for row in table.runs)]


def table_parts(table: RunTable) -> list[Part]:
    """The table, where each step goes, and the first finding of each run."""
    columns = visible_columns(table)
    cells: list[list[Line]] = [[column.cell(row) for column in columns] for row in table.runs]
    bars = Bars([BarRow(row.name, bucket_shares(row)) for row in table.runs])
    findings: list[Line] = [
        [Span(row.name, "strong"), f": {describe_finding(row)} ",
         Span(row.sources[0] if row.sources else row.run, "code")]
        for row in table.runs
    ]  # fmt: skip
    shown = [Column(c.title, number=bool(n), rank=c.rank) for n, c in enumerate(columns)]
    return [
        Headline(summarize_table(table)),
        Section("", [Table(shown, cells)]),
        Section("Where the step goes", [Picture(lambda: draw_table(table), [bars])]),
        Section("First finding of each run", [Items(findings)]),
        Section("", [Paragraph(note, "note", "dim") for note in table_notes(table)]),
    ]


def table_notes(table: RunTable) -> list[str]:
    """The notes, with the meaning of columns."""
    return [f"time ratio: step time over that of {table.baseline}, ± 95%", HOST_TIME, *table.notes]


def draw_table(table: RunTable) -> Markup:
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
        tag(
            "text",
            f"every steady step, 0 to {words.format_seconds(tallest)}",
            x=WIDTH - _SPREAD,
            y=10,
        )
    ]
    svg = tag(
        "svg",
        tag("g", axis if tallest else [], class_="axis", fill="currentColor", font_size=12),
        parts,
        viewBox=f"0 0 {WIDTH} {height}",
        width="100%",
        role="img",
        aria_label="Attribution and steps of each run",
    )
    return Markup(svg + render_keys(visible_buckets(table)))


def _draw_bar(row: RunRow, top: int, length: float) -> list[Markup]:
    parts, at = [_label(row.name[:28], 0, top + 17)], float(_NAMES)
    for bucket, share in _ordered_shares(row):
        title = tag("title", f"{LOOKS[bucket].title} {words.format_percent(share)}")
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
    return [*parts, _label(words.format_seconds(row.step_s), at + 6, top + 17)]


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
        title = tag("title", f"median {words.format_seconds(row.p50_s)}, {row.steps} steps")
        x = f"{left + row.p50_s * scale - 1:.1f}"
        parts.append(
            tag("rect", title, x=x, y=top, width=2, height=_BAR, class_="fill-interruption")
        )
    return parts


def _thin_out(times: Sequence[float]) -> Sequence[float]:
    # of more steps, every n-th is drawn
    return times[:: max(1, len(times) // 400)]


def _label(text: str, x: float, y: int) -> Markup:
    return tag("text", text, x=f"{x:.1f}", y=y, fill="currentColor", font_size=13)
