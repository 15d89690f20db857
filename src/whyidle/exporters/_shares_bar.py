"""Shares as one row of cells, and the legend below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.text import Text

from whyidle.exporters._number_format import format_percent
from whyidle.exporters._palette import LOOKS
from whyidle.exporters._text_page import Page
from whyidle.model.buckets import Bucket

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
"""what stands for a bucket where there are no colours"""


def draw_shares_bar(page: Page, shares: Mapping[Bucket, float], indent: int = 2) -> None:
    """Draw the bar and its legend, in the order of ``LOOKS``."""
    drawn = {bucket: shares[bucket] for bucket in LOOKS if shares[bucket] >= SEEN}
    row = Text(" " * indent)
    for bucket, cells in allocate_cells(drawn, page.width - 2 * indent).items():
        if page.plain:
            row.append(LETTERS[bucket] * cells)
        else:
            row.append("█" * cells, LOOKS[bucket].colour)
    page.write_row(row)
    _draw_legend(page, drawn, indent)


def allocate_cells(shares: Mapping[Bucket, float], width: int) -> dict[Bucket, int]:
    """Whole cells that add up to ``width``: at least one each, the rest by largest remainder."""
    whole = sum(shares.values())
    if not shares or whole <= 0:
        return {}
    spare = width - len(shares)
    exact = {bucket: spare * share / whole for bucket, share in shares.items()}
    cells = {bucket: 1 + int(value) for bucket, value in exact.items()}
    by_rest = sorted(exact, key=lambda bucket: int(exact[bucket]) - exact[bucket])
    for bucket in by_rest[: width - sum(cells.values())]:
        cells[bucket] += 1
    return cells


def _draw_legend(page: Page, shares: Mapping[Bucket, float], indent: int) -> None:
    """As many entries per row as fit; an entry is never broken."""
    row = Text(" " * indent)
    for bucket, share in shares.items():
        mark = LETTERS[bucket] if page.plain else "█"
        entry = Text().append_text(page.styled_text(mark, LOOKS[bucket].colour))
        entry.append_text(
            page.styled_text(f" {LOOKS[bucket].title.lower()} {format_percent(share)}")
        )
        if row.cell_len > indent and row.cell_len + entry.cell_len + 3 > page.width:
            page.write_row(row)
            row = Text(" " * indent)
        if row.cell_len > indent:
            row.append("   ")
        row.append_text(entry)
    page.write_row(row)
