"""Renders one command over its runs for a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from whyidle.exporters import _number_format as words
from whyidle.exporters._next_steps import NextStep, next_commands
from whyidle.exporters._palette import LOOKS
from whyidle.exporters._text_bar import SEEN, draw_legend, draw_row
from whyidle.exporters._text_page import Colours, Page
from whyidle.model.buckets import BUCKETS, Bucket
from whyidle.model.run_history import HistoryRow, RunHistory, SpeedChange

MOST_ROWS: Final = 40
_SECOND: Final = len("20260102-030405")
_STYLES: Final = {"slower": "red", "faster": "green"}


def history_buckets(history: RunHistory) -> list[Bucket]:
    """The buckets that have a part of a run's step, in drawing order."""
    return [b for b in LOOKS if any(row_shares(row)[b] >= SEEN for row in history.rows)]


def row_shares(row: HistoryRow) -> dict[Bucket, float]:
    """The attribution of a run by bucket."""
    return {bucket: getattr(row.attribution, bucket) for bucket in BUCKETS}


def summarize_history(history: RunHistory) -> str:
    """The last change in one sentence, or that there is none."""
    if history.changes:
        return describe_change(history.changes[-1])
    timed = [row.step_s for row in history.rows if row.step_s is not None]
    if not timed:
        return "No run has a step time."
    if all(row.expected is None for row in history.rows):
        return f"{len(timed)} runs are too few to say whether the step changed."
    low, high = words.format_seconds(min(timed)), words.format_seconds(max(timed))
    return f"The step did not change beyond its spread in {len(timed)} runs: {low} to {high}."


def describe_change(change: SpeedChange) -> str:
    """A change in one sentence."""
    ratio = change.after_s / change.before_s
    amount = (
        f"{ratio - 1:.0%} slower"
        if change.kind == "slower"
        else f"{words.format_factor(1 / ratio)}× as fast"
    )
    expected = " to ".join(
        words.format_seconds(value) for value in (change.expected.low, change.expected.high)
    )
    text = (
        f"The step became {amount} with the run {change.run[:_SECOND]}: "
        f"{words.format_seconds(change.after_s)}, where the {change.earlier} runs before let one "
        f"expect {expected}"
    )
    if change.moved is not None:
        bucket, seconds = change.moved
        sign = "+" if seconds > 0 else "-"
        text += f"; mostly {bucket}, {sign}{words.format_seconds(abs(seconds))} per step"
    if change.cause is not None:
        text += f", with {change.cause} as a new first finding"
    return f"{text}." if change.confirmed else f"{text}. One run may be chance: run it again."


def render_history(
    history: RunHistory,
    *,
    width: int = 80,
    colours: Colours | None = None,
    next_steps: Sequence[NextStep] = (),
) -> str:
    """Render the history as text: one bar per run, as long as its step."""
    page = Page(width, colours)
    page.write_blank_line()
    page.write_paragraph(summarize_history(history), style="bold", indent=2)
    for change in history.changes[:-1]:
        page.write_paragraph(describe_change(change), label="before that: ", indent=2)
    page.write_blank_line()
    rows = history.rows[-MOST_ROWS:]
    if len(history.rows) > len(rows):
        earlier = f"{len(history.rows) - len(rows)} earlier runs are in --html and --json"
        page.write_paragraph(earlier, style="dim", indent=2)
    longest = max((row.step_s or 0.0 for row in rows), default=0.0)
    for row in rows:
        _draw_run(page, row, longest)
    draw_legend(page, dict.fromkeys(history_buckets(history), ""))
    page.write_blank_line()
    commands = {shlex.join(row.command) for row in history.rows}
    for text in sorted(commands)[:3]:
        page.write_paragraph(text, style="dim", label="command ", indent=2)
    for note in history.notes:
        page.write_paragraph(note, style="dim", label="note ", indent=2)
    next_commands(page, next_steps)
    return page.page_text()


def _draw_run(page: Page, row: HistoryRow, longest: float) -> None:
    busy = "" if row.busy is None else f"busy {words.format_percent(row.busy)}"
    head = page.styled_text(f"  {format_day(row.created)}  ")
    head.append_text(
        page.styled_text(f"{words.format_seconds(row.step_s):>8} ", _STYLES.get(row.kind or "", ""))
    )
    head.append_text(page.styled_text(f"{row.kind or '':<7}{busy:<10}", "dim"))
    if row.step_s is None or not longest:
        page.write_row(head)
        return
    room = page.width - head.cell_len - 1
    cells = max(1, round(room * row.step_s / longest))
    draw_row(page, row_shares(row), head, margin=1 + room - cells)


def format_day(created: str) -> str:
    """A stored time as local date and time."""
    try:
        return datetime.fromisoformat(created).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return created[:16]
