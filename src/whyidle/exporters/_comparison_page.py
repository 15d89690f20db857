"""Renders a comparison for a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.text import Text

from whyidle.exporters import _number_format as words
from whyidle.exporters._next_steps import NextStep, next_commands
from whyidle.exporters._text_page import Colours, Page
from whyidle.model.comparison import Change, Comparison

_ROWS = 6
_BRACKETS = re.compile(r"<[^<>]*>|\([^()]*\)(?=::)")


def render_comparison(
    comparison: Comparison,
    *,
    width: int = 80,
    colours: Colours | None = None,
    full: bool = False,
    next_steps: Sequence[NextStep] = (),
) -> str:
    """Render the comparison as text; ``full`` lists every change."""
    page = Page(width, colours)
    page.write_blank_line()
    page.write_paragraph(_draw_headline(comparison), style="bold", indent=2)
    page.write_blank_line()
    for label, side in (("before", comparison.before), ("after", comparison.after)):
        source = side.sources[0] if len(side.sources) == 1 else f"{len(side.sources)} recordings"
        text = f"{source}: {side.state}, {side.headline}"
        page.write_paragraph(text, label=f"{label:<7}", indent=2)
    timed = comparison.before.step_s is not None and comparison.after.step_s is not None
    limit = None if full else _ROWS
    _draw_changes(page, "where the step's time goes", comparison.buckets[:limit], timed)
    _draw_changes(page, "finer reasons", comparison.reasons[:limit], timed)
    _draw_changes(page, "kernels", comparison.kernels[:limit], timed)
    _draw_causes(page, comparison)
    page.write_blank_line()
    for note in comparison.notes:
        page.write_paragraph(note, style="dim", label="note ", indent=2)
    next_commands(page, next_steps)
    return page.page_text()


def _draw_headline(comparison: Comparison) -> str:
    step = comparison.step
    if step is None:
        return "The step times cannot be compared: one side has fewer than two steady steps."
    change = (
        f"{words.format_seconds(comparison.before.step_s)} to "
        f"{words.format_seconds(comparison.after.step_s)}"
    )
    spread = f"95% interval {step.low:.2f} to {step.high:.2f}"
    if not step.real:
        return (
            f"The step time did not change significantly ({change}): ratio {step.ratio:.2f}, "
            f"{spread}."
        )
    if step.ratio < 1.0:
        faster = f"{1 / step.ratio:.2f}× as fast"
        return f"The step is {faster}: {change} (time ratio {step.ratio:.2f}, {spread})."
    return f"The step is {step.ratio - 1:.0%} slower: {change} (ratio {step.ratio:.2f}, {spread})."


def _draw_changes(page: Page, title: str, changes: Sequence[Change], timed: bool) -> None:
    if not changes:
        return
    page.write_blank_line()
    page.write_paragraph(f"{title}{'' if timed else ' (shares)'}", style="dim", indent=2)
    for change in changes:
        style = "green" if change.delta_s < 0 else "red"
        delta = page.styled_text(f"{_format_difference(change.delta_s, timed):>10}", style)
        was, now = _format_value(change.before_s, timed), _format_value(change.after_s, timed)
        head = Text().append_text(delta) + page.styled_text(f"  {was:>8} → {now:<8}  ")
        meaning = f" ({change.meaning})" if change.meaning else ""
        name = change.name.replace("_", " ") if change.bucket else shorten_kernel_name(change.name)
        page.write_paragraph(
            page.styled_text(name), page.styled_text(meaning, "dim"), head=head, indent=2
        )


def shorten_kernel_name(name: str) -> str:
    """A kernel's name without return type, template arguments and parameters."""
    text = name.removeprefix("void ")
    while (shorter := _BRACKETS.sub("", text)) != text:
        text = shorter
    return text.partition("(")[0].strip() or name


def _format_difference(value: float, timed: bool) -> str:
    return ("+" if value > 0 else "-" if value < 0 else "") + _format_value(abs(value), timed)


def _format_value(value: float | None, timed: bool) -> str:
    return words.format_seconds(value) if timed else words.format_percent(value)


def _draw_causes(page: Page, comparison: Comparison) -> None:
    if comparison.gone or comparison.appeared:
        page.write_blank_line()
    if comparison.gone:
        page.write_paragraph(f"gone: {', '.join(comparison.gone)}", style="green", indent=2)
    if comparison.appeared:
        page.write_paragraph(f"new: {', '.join(comparison.appeared)}", style="red", indent=2)
