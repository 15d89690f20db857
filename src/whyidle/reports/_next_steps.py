"""Renders the commands at the end of a page."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from whyidle.reports._text_page import Page

NextStep = tuple[str, str]
"""(command, purpose)"""


def next_commands(page: Page, steps: Sequence[NextStep], *, brief: bool = False) -> None:
    """Draw the next commands, each with its purpose beside it or, on a narrow page, below it.
    ``brief``: without a heading of their own."""
    if not steps:
        return
    if not brief:
        page.write_blank_line()
        page.write_paragraph("next", style="dim", indent=2)
    indent, room = (11, page.width - 14) if brief else (4, page.width - 8)
    fitting = [len(command) for command, purpose in steps if len(command) + len(purpose) <= room]
    column = max(fitting, default=0)
    for number, (command, purpose) in enumerate(steps):
        beside = len(command) <= column and column + len(purpose) <= room
        gap = " " * (column - len(command) + 2) if beside else ""
        label = "  next" if brief and not number else ""
        page.write_row(
            page.styled_text(f"{label:<{indent}}", "dim")
            + page.styled_text(command, "cyan")
            + Text(gap)
            + page.styled_text(purpose if beside else "", "dim")
        )
        if not beside:
            page.write_paragraph(purpose, style="dim", indent=indent + 2)
