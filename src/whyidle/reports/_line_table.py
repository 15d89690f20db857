"""The table "your step, by line", the same in every report."""

from __future__ import annotations

from typing import Final

from whyidle.model.diagnosis import Diagnosis, LineRow
from whyidle.model.purposes import MEANINGS, Purpose
from whyidle.reports._number_format import NONE, format_percent, format_seconds
from whyidle.reports._sections import Column, Line, Section, Span, Table

WAITS: Final = "device waits"
TITLE: Final = "Your step, by line"
MOST_ROWS: Final = 8
LEAST_SHARE: Final = 0.01
"""lines below it are summed in the last row"""
COLUMNS: Final = (
    Column("time", True),
    Column("share", True),
    Column(WAITS, True, 3),
    Column("what it does", rank=2),
    Column("line"),
    Column("", rank=4),
)


def line_section(
    diagnosis: Diagnosis, most: int = MOST_ROWS, *, heads: bool = True
) -> Section | None:
    """The lines with most time first, at most ``most``, and the sum of the rest; None if no stack
    was sampled. Without ``heads``, the columns that need a title are left out, too."""
    lines = diagnosis.detail.lines
    if most < 1 or not any(line.place for line in lines):
        return None  # a library alone tells nothing of the step
    shown = [line for line in lines if line.share >= LEAST_SHARE][:most]
    rows = [_format_row(line) for line in shown]
    left, step = 1.0 - sum(line.share for line in shown), diagnosis.steps.mean_s
    if shown and left >= LEAST_SHARE and step:
        count = len(lines) - len(shown)
        name = f"{count} more line{'s' if count != 1 else ''}" if count else "not sampled"
        rows.append([format_seconds(left * step), format_percent(left), NONE, "the rest", name, ""])
    columns = list(COLUMNS)
    if not heads:
        columns = [column._replace(title="") for column in columns if column.title != WAITS]
        rows = [[*row[:2], *row[3:]] for row in rows]
    return Section(TITLE, [Table(columns, rows, "lines", cut=True)])


def _format_row(line: LineRow) -> list[Line]:
    place, known = line.place, {purpose.value: text for purpose, text in MEANINGS.items()}
    spot = f"{(place.file or '').rpartition('/')[2]}:{place.line}" if place else "(a library)"
    text = line.text or (f"in {place.function}" if place and place.function else "")
    text = f"after {text}" if text.endswith(".eval()") else text  # where evaluation begins
    what = known.get(line.purpose, MEANINGS[Purpose.OTHER])
    return [
        format_seconds(line.seconds),
        format_percent(line.share),
        format_percent(line.device_waits),
        Span(f"{what}, only reports", "caution") if line.reporting else what,
        Span(spot, "code"),
        Span(text, "dim"),
    ]
