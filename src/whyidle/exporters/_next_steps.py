"""Renders the commands at the end of a page."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from whyidle.exporters._text_page import Page

NextStep = tuple[str, str]
"""(command, purpose)"""


def next_commands(page: Page, steps: Sequence[NextStep]) -> None:
    """Draw the next commands, each with its purpose beside it or, on a narrow page, below it."""
    if not steps:
        return
    page.write_blank_line()
    page.write_paragraph("next", style="dim", indent=2)
    room = page.width - 8
    fitting = [len(command) for command, purpose in steps if len(command) + len(purpose) <= room]
    column = max(fitting, default=0)
    for command, purpose in steps:
        beside = len(command) <= column and column + len(purpose) <= room
        gap = " " * (column - len(command) + 2) if beside else ""
        page.write_row(
            Text("    ")
            + page.styled_text(command, "cyan")
            + Text(gap)
            + page.styled_text(purpose if beside else "", "dim")
        )
        if not beside:
            page.write_paragraph(purpose, style="dim", indent=6)
