"""Several runs side by side, as sections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from whyidle.model.buckets import BUCKETS, Bucket
from whyidle.model.documents.comparison import StepChange
from whyidle.model.documents.run_table import RunRow, RunTable
from whyidle.reports import _number_format as words
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
    Section,
    Span,
    Table,
)


class Measure(NamedTuple):
    """A column of the table; ``rank`` is its importance where the page is narrow."""

    title: str
    cell: Callable[[RunRow], str]
    rank: int


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


def table_parts(table: RunTable) -> list[Part]:
    """The table, where each step goes, and the first finding of each run."""
    columns = visible_columns(table)
    cells: list[list[Line]] = [[column.cell(row) for column in columns] for row in table.runs]
    longest = max((row.step_s or 0.0 for row in table.runs), default=0.0)
    bars = Bars(
        [
            BarRow(row.name, bucket_shares(row), (row.step_s or 0.0) / longest if longest else 1.0)
            for row in table.runs
        ]
    )
    findings: list[Line] = [
        [Span(row.name, "strong"), f": {describe_finding(row)} ",
         Span(row.sources[0] if row.sources else row.run, "code")]
        for row in table.runs
    ]  # fmt: skip
    shown = [Column(c.title, number=bool(n), rank=c.rank) for n, c in enumerate(columns)]
    return [
        Headline(summarize_table(table)),
        Section("", [Table(shown, cells)]),
        Section("Where the step goes", [bars]),
        Section("First finding of each run", [Items(findings)]),
        Section("", [Paragraph(note, "note", "dim") for note in table_notes(table)]),
    ]


def table_notes(table: RunTable) -> list[str]:
    """The notes, with the meaning of columns."""
    return [f"time ratio: step time over that of {table.baseline}, ± 95%", HOST_TIME, *table.notes]
