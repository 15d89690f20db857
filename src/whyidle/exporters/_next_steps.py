"""The commands that a page ends with."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from whyidle.exporters._text_page import Page

NextStep = tuple[str, str]
"""(command, what it is good for)"""


def next_commands(page: Page, steps: Sequence[NextStep]) -> None:
    """The commands to go on with; what each is for stands beside or, where narrow, below it."""
    if not steps:
        return
    page.write_blank_line()
    page.write_paragraph(page.styled_text("next", "dim"), indent=2)
    fits = [len(command) for command, purpose in steps if _fits_beside(page, command, purpose)]
    column = max(fits, default=0)
    for command, purpose in steps:
        beside = len(command) <= column and column + len(purpose) + 8 <= page.width
        gap = " " * (column - len(command) + 2) if beside else ""
        page.write_row(
            Text("    ")
            + page.styled_text(command, "cyan")
            + Text(gap)
            + page.styled_text(purpose if beside else "", "dim")
        )
        if not beside:
            page.write_paragraph(page.styled_text(purpose, "dim"), indent=6)


def _fits_beside(page: Page, command: str, purpose: str) -> bool:
    return len(command) + len(purpose) + 8 <= page.width
