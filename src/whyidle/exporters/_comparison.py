"""A comparison for a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.text import Text

from whyidle.exporters import _words as words
from whyidle.exporters._next import NextStep, next_commands
from whyidle.exporters._page import Colours, Page
from whyidle.model.comparison import Change, Comparison, Side

_ROWS = 6
_BRACKETS = re.compile(r"<[^<>]*>|\([^()]*\)(?=::)")


def render(
    comparison: Comparison,
    *,
    width: int = 80,
    colours: Colours | None = None,
    full: bool = False,
    next_steps: Sequence[NextStep] = (),
) -> str:
    """The comparison as text; ``full`` lists every change."""
    page = Page(width, colours)
    page.gap()
    page.line(page.text(_headline(comparison), "bold"), indent=2)
    page.gap()
    for label, side in (("before", comparison.before), ("after", comparison.after)):
        page.line(page.text(_side(side)), head=page.text(f"{label:<7}", "dim"), indent=2)
    timed = comparison.before.step_s is not None and comparison.after.step_s is not None
    limit = None if full else _ROWS
    _table(page, "where the step's time went", comparison.buckets[:limit], timed)
    _table(page, "why", comparison.reasons[:limit], timed)
    _table(page, "kernels", comparison.kernels[:limit], timed)
    _causes(page, comparison)
    page.gap()
    for note in comparison.notes:
        page.line(page.text(note, "dim"), head=page.text("note ", "dim"), indent=2)
    next_commands(page, next_steps)
    return page.done()


def _headline(comparison: Comparison) -> str:
    step = comparison.step
    if step is None:
        return "The step times cannot be compared: a side has fewer than two steady steps."
    change = (
        f"{words.seconds(comparison.before.step_s)} to {words.seconds(comparison.after.step_s)}"
    )
    spread = f"95% interval {step.low:.2f} to {step.high:.2f}"
    if not step.real:
        return f"No real change of the step time ({change}): ratio {step.ratio:.2f}, {spread}."
    if step.ratio < 1.0:
        faster = f"{1 / step.ratio:.2f}× as fast"
        return f"The step became {faster}: {change} (time ratio {step.ratio:.2f}, {spread})."
    return (
        f"The step became {step.ratio - 1:.0%} slower: {change} (ratio {step.ratio:.2f}, {spread})."
    )


def _side(side: Side) -> str:
    source = side.sources[0] if len(side.sources) == 1 else f"{len(side.sources)} recordings"
    return f"{source}: {side.state}, {side.headline}"


def _table(page: Page, title: str, changes: Sequence[Change], timed: bool) -> None:
    """One row per change: what it added, before, after, what it is."""
    if not changes:
        return
    page.gap()
    page.line(page.text(f"{title}{'' if timed else ' (shares)'}", "dim"), indent=2)
    for change in changes:
        style = "green" if change.delta_s < 0 else "red"
        delta = page.text(f"{_signed(change.delta_s, timed):>10}", style)
        was, now = _value(change.before_s, timed), _value(change.after_s, timed)
        head = Text().append_text(delta) + page.text(f"  {was:>8} → {now:<8}  ")
        meaning = f" ({change.meaning})" if change.meaning else ""
        name = change.name.replace("_", " ") if change.bucket else kernel(change.name)
        page.line(page.text(name), page.text(meaning, "dim"), head=head, indent=2)


def kernel(name: str) -> str:
    """A kernel's name without return type, template arguments and parameters, which go into the
    thousands of characters."""
    text = name.removeprefix("void ")
    while (shorter := _BRACKETS.sub("", text)) != text:
        text = shorter
    return text.partition("(")[0].strip() or name


def _signed(value: float, timed: bool) -> str:
    return ("+" if value > 0 else "-" if value < 0 else "") + _value(abs(value), timed)


def _value(value: float | None, timed: bool) -> str:
    return words.seconds(value) if timed else words.percent(value)


def _causes(page: Page, comparison: Comparison) -> None:
    if comparison.gone or comparison.appeared:
        page.gap()
    if comparison.gone:
        page.line(page.text(f"gone: {', '.join(comparison.gone)}", "green"), indent=2)
    if comparison.appeared:
        page.line(page.text(f"new: {', '.join(comparison.appeared)}", "red"), indent=2)
