"""The table "your step, by line", the same in every report."""

from __future__ import annotations

from typing import Final, NamedTuple

from whyidle.exporters._number_format import NONE, format_percent, format_seconds
from whyidle.exporters._text_page import Page, clean_text
from whyidle.model.diagnosis import Diagnosis, LineRow
from whyidle.model.purposes import MEANINGS, Purpose

TITLE: Final = "your step, by line"
MOST_ROWS: Final = 8
LEAST_SHARE: Final = 0.01
"""lines below it are summed in the last row"""
_LEAST_TEXT: Final = 16
"""columns below which a line's text is not shown"""


class TableRow(NamedTuple):
    """One row, as texts."""

    line: str
    text: str
    what: str
    time: str
    share: str
    waits: str
    """share of its time in which the device waits; a dash where the CPU is the device"""
    reporting: bool


def table_rows(diagnosis: Diagnosis) -> list[TableRow]:
    """Return the rows, those with most time first, the rest summed."""
    lines = diagnosis.detail.lines
    if not any(line.place for line in lines):
        return []  # a library alone tells nothing of the step
    shown = [line for line in lines if line.share >= LEAST_SHARE][:MOST_ROWS]
    rows = [_format_row(line) for line in shown]
    left, step = 1.0 - sum(line.share for line in shown), diagnosis.steps.mean_s
    if shown and left >= LEAST_SHARE and step:
        count = len(lines) - len(shown)
        name = f"{count} more line{'s' if count != 1 else ''}" if count else "not sampled"
        text = "", "the rest", format_seconds(left * step), format_percent(left), NONE
        rows.append(TableRow(name, *text, reporting=False))
    return rows


def _format_row(line: LineRow) -> TableRow:
    place, known = line.place, {purpose.value: text for purpose, text in MEANINGS.items()}
    spot = f"{(place.file or '').rpartition('/')[2]}:{place.line}" if place else "(a library)"
    text = line.text or (f"in {place.function}" if place and place.function else "")
    what = known.get(line.purpose, MEANINGS[Purpose.OTHER])
    return TableRow(
        line=spot,
        text=text,
        what=f"{what}, only reports" if line.reporting else what,
        time=format_seconds(line.seconds),
        share=format_percent(line.share),
        waits=format_percent(line.device_waits),
        reporting=line.reporting,
    )


def shows_waits(rows: list[TableRow]) -> bool:
    """Return whether any row tells whether the device waits."""
    return any(row.waits != NONE for row in rows)


def draw_line_table(page: Page, diagnosis: Diagnosis) -> None:
    """Draw the table on a terminal, one line of text per row."""
    rows = table_rows(diagnosis)
    if not rows or diagnosis.steps.detected_by is None:
        return
    page.write_blank_line()
    page.write_paragraph(TITLE, style="bold", indent=2)
    on_device = shows_waits(rows)
    cells = [
        (row.time, row.share, *((row.waits,) if on_device else ()), row.what, row.line)
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row, parts in zip(rows, cells, strict=True):
        padded = [
            part.ljust(width) if number >= len(parts) - 2 else part.rjust(width)
            for number, (part, width) in enumerate(zip(parts, widths, strict=True))
        ]
        head = f"  {'  '.join(padded)}  "
        room = page.width - len(head) - 2
        text = clean_text(row.text, room) if room >= _LEAST_TEXT else ""
        style = "yellow" if row.reporting else ""
        head = head[: page.width].rstrip() if not text else head
        page.write_row(page.styled_text(head, style) + page.styled_text(text, "dim"))
