"""Draws the shares of a step as a row of cells with a legend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.text import Text

from whyidle.model.buckets import Bucket
from whyidle.reports._number_format import format_percent
from whyidle.reports._palette import LOOKS
from whyidle.reports._text_page import Page

SEEN = 0.005
"""a smaller share is neither drawn nor listed"""
LETTERS: Final[dict[Bucket, str]] = {
    "compute": "#",
    "input": "i",
    "transfer": "t",
    "host": "h",
    "sync": "s",
    "communication": "c",
    "interruption": "x",
    "unknown": ".",
}
"""the character of each bucket without colours"""


def draw_text_bar(page: Page, shares: Mapping[Bucket, float], indent: int = 2) -> None:
    """Draw the bar and its legend, in the order of ``LOOKS``."""
    draw_row(page, shares, Text(" " * indent), margin=indent)
    draw_legend(page, {b: format_percent(shares[b]) for b in LOOKS if shares[b] >= SEEN}, indent)


def draw_row(page: Page, shares: Mapping[Bucket, float], head: Text, margin: int = 1) -> None:
    """Draw the bar after ``head``, up to ``margin`` columns before the end of the page."""
    visible = {bucket: shares[bucket] for bucket in LOOKS if shares[bucket] >= SEEN}
    row = head.copy()
    for bucket, cells in allocate_cells(visible, page.width - head.cell_len - margin).items():
        if page.plain:
            row.append(LETTERS[bucket] * cells)
        else:
            row.append("█" * cells, LOOKS[bucket].colour)
    page.write_row(row)


def allocate_cells(shares: Mapping[Bucket, float], width: int) -> dict[Bucket, int]:
    """Split ``width`` cells: at least one per bucket, the rest by largest remainder."""
    total = sum(shares.values())
    if not shares or total <= 0:
        return {}
    spare = width - len(shares)
    exact = {bucket: spare * share / total for bucket, share in shares.items()}
    cells = {bucket: 1 + int(value) for bucket, value in exact.items()}
    by_rest = sorted(exact, key=lambda bucket: int(exact[bucket]) - exact[bucket])
    for bucket in by_rest[: width - sum(cells.values())]:
        cells[bucket] += 1
    return cells


def draw_legend(page: Page, values: Mapping[Bucket, str], indent: int = 2) -> None:
    """Draw the mark and the title of each bucket, with its value."""
    row = Text(" " * indent)
    for bucket, value in values.items():
        mark = LETTERS[bucket] if page.plain else "█"
        entry = Text().append_text(page.styled_text(mark, LOOKS[bucket].colour))
        entry.append_text(page.styled_text(f" {LOOKS[bucket].title.lower()} {value}".rstrip()))
        if row.cell_len > indent and row.cell_len + entry.cell_len + 3 > page.width:
            page.write_row(row)
            row = Text(" " * indent)
        if row.cell_len > indent:
            row.append("   ")
        row.append_text(entry)
    page.write_row(row)
