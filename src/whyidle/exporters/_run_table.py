"""Renders several runs side by side for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from rich.text import Text

from whyidle.exporters import _number_format as words
from whyidle.exporters._markdown_text import code_span, escape_text
from whyidle.exporters._next_steps import NextStep, next_commands
from whyidle.exporters._palette import LOOKS
from whyidle.exporters._relative_paths import shorten_place
from whyidle.exporters._text_bar import SEEN, draw_legend, draw_row
from whyidle.exporters._text_page import MARGIN, Colours, Page
from whyidle.model.buckets import BUCKETS, Bucket
from whyidle.model.comparison import StepChange
from whyidle.model.run_table import RunRow, RunTable


class Column(NamedTuple):
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
    Column("run", lambda row: row.name, 0),
    Column("first step", lambda row: words.format_seconds(row.first_step_s), 4),
    Column("step", lambda row: words.format_seconds(row.step_s), 1),
    Column("median to 95%", lambda row: _format_range(row.p50_s, row.p95_s), 6),
    Column("samples/s", lambda row: _format_rate(row.samples_per_s), 2),
    Column("host memory", lambda row: words.format_bytes(row.host_memory_peak_bytes), 5),
    Column("device memory", lambda row: words.format_bytes(row.device_memory_peak_bytes), 5),
    Column("host time", _format_host, 3),
    Column("time ratio", lambda row: format_change(row.change), 1),
)


def visible_columns(table: RunTable) -> list[Column]:
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


def render_table(
    table: RunTable,
    *,
    width: int = 80,
    colours: Colours | None = None,
    next_steps: Sequence[NextStep] = (),
) -> str:
    """Render the table as text of at most ``width`` columns."""
    page = Page(width, colours)
    page.write_blank_line()
    page.write_paragraph(summarize_table(table), style="bold", indent=2)
    page.write_blank_line()
    columns = _fitting_columns(table, width)
    rows = [[page.styled_text(column.cell(row)) for column in columns] for row in table.runs]
    page.table(["", *(c.title for c in columns)], [[Text(" "), *row] for row in rows])
    page.write_blank_line()
    page.write_paragraph("where the step goes", style="dim", indent=2)
    room = min(max(len(row.name) for row in table.runs), width // 3)
    for row in table.runs:
        head = page.styled_text(f"  {row.name[:room]:<{room}}  ")
        draw_row(page, bucket_shares(row), head)
    draw_legend(page, dict.fromkeys(visible_buckets(table), ""))
    page.write_blank_line()
    for row in table.runs:
        page.write_paragraph(describe_finding(row), label=f"{row.name}: ", indent=2)
    page.write_blank_line()
    for note in table_notes(table):
        page.write_paragraph(note, style="dim", label="note ", indent=2)
    next_commands(page, next_steps)
    return page.page_text()


def table_notes(table: RunTable) -> list[str]:
    """The notes, with the meaning of columns."""
    return [f"time ratio: step time over that of {table.baseline}, ± 95%", HOST_TIME, *table.notes]


def render_markdown(table: RunTable) -> str:
    """Render the table as GitHub-flavoured Markdown."""
    return "\n".join(_markdown_lines(table)) + "\n"


def _markdown_lines(table: RunTable) -> Iterator[str]:
    columns = visible_columns(table)
    yield from (f"### {escape_text(summarize_table(table))}", "")
    yield f"| {' | '.join(column.title for column in columns)} |"
    yield f"|---|{'--:|' * (len(columns) - 1)}"
    for row in table.runs:
        yield f"| {' | '.join(escape_text(column.cell(row)) for column in columns)} |"
    buckets = visible_buckets(table)
    yield from ("", f"| where the step goes | {' | '.join(LOOKS[b].title for b in buckets)} |")
    yield f"|---|{'--:|' * len(buckets)}"
    for row in table.runs:
        shares = (words.format_percent(bucket_shares(row)[b]) for b in buckets)
        yield f"| {escape_text(row.name)} | {' | '.join(shares)} |"
    yield ""
    for row in table.runs:
        source = code_span(row.sources[0]) if row.sources else escape_text(row.run)
        yield f"- **{escape_text(row.name)}**, {source}: {escape_text(describe_finding(row))}"
    yield ""
    for note in table_notes(table):
        yield f"> {escape_text(note)}"


def _fitting_columns(table: RunTable, width: int) -> list[Column]:
    """The columns that fit, without the least important ones."""
    columns = visible_columns(table)
    while len(columns) > 1 and 2 + sum(_cells(c, table) + 1 for c in columns) > width - MARGIN:
        columns.remove(max(columns, key=lambda column: column.rank))
    return columns


def _cells(column: Column, table: RunTable) -> int:
    return max(len(column.title), *(len(column.cell(row)) for row in table.runs))
