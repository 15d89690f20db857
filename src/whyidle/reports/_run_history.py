"""One command over its stored runs, as sections."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import Final

from whyidle.model.buckets import BUCKETS, Bucket
from whyidle.model.documents.run_history import HistoryRow, RunHistory, SpeedChange
from whyidle.reports import _number_format as words
from whyidle.reports._html.element import Markup
from whyidle.reports._html.sections import render_parts
from whyidle.reports._sections import (
    BarRow,
    Bars,
    Column,
    Headline,
    Line,
    Paragraph,
    Part,
    Picture,
    Section,
    Span,
    Table,
    Tone,
)

_SECOND: Final = len("20260102-030405")
_TONES: Final[dict[str, Tone]] = {"slower": "bad", "faster": "good"}


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
        return f"{len(timed)} runs are too few to tell whether the step changed."
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
        f"{words.format_seconds(change.after_s)}, where the {change.earlier} runs before "
        f"predict {expected}"
    )
    if change.moved is not None:
        bucket, seconds = change.moved
        sign = "+" if seconds > 0 else "-"
        text += f"; mostly {bucket}, {sign}{words.format_seconds(abs(seconds))} per step"
    if change.cause is not None:
        text += f", with {change.cause} as a new first finding"
    return f"{text}." if change.confirmed else f"{text}. A single run may be chance: repeat it."


def history_parts(history: RunHistory) -> list[Part]:
    """The last change, a bar per run, and a table of all runs, the newest first."""
    rows = history.rows[-40:]
    longest = max((row.step_s or 0.0 for row in rows), default=0.0) or 1.0
    bars = [BarRow(_name(row), row_shares(row), (row.step_s or 0.0) / longest) for row in rows]
    more = len(history.rows) - len(rows)
    earlier = [Paragraph(f"{more} earlier runs are in --html and --json", tone="dim")]
    commands = sorted({shlex.join(row.command) for row in history.rows})
    return [
        Headline(summarize_history(history)),
        *(Paragraph(describe_change(c), "before that:") for c in history.changes[:-1]),
        Section("Step time and where it goes, by run", [
            *(earlier if more else ()),
            Bars(bars),
        ]),
        Picture(lambda: Markup("".join(render_parts([_runs_section(history)])))),
        Section("", [
            *(Paragraph(text, "command", "dim") for text in commands[:3]),
            *(Paragraph(text, "note", "dim") for text in history.notes),
        ]),
    ]  # fmt: skip


def _name(row: HistoryRow) -> Line:
    busy = "" if row.busy is None else f"busy {words.format_percent(row.busy)}"
    tone = _TONES.get(row.kind or "", "")
    return [
        f"{format_day(row.created)}  ",
        Span(f"{words.format_seconds(row.step_s):>8} ", tone),
        Span(f"{row.kind or '':<7}{busy:<10}", "dim"),
    ]


def _runs_section(history: RunHistory) -> Section:
    cells: list[list[Line]] = []
    for row in reversed(history.rows):
        bounds = (row.expected.low, row.expected.high) if row.expected else ()
        cells.append([
            row.run, format_day(row.created), words.format_seconds(row.step_s),
            " to ".join(words.format_seconds(value) for value in bounds), row.state,
            row.cause or "", words.format_percent(row.busy), row.kind or "",
        ])  # fmt: skip
    heads = ("run", "when", "step", "expected", "verdict", "first finding", "busy", "change")
    columns = [Column(head, number=head in ("step", "busy")) for head in heads]
    return Section("Runs, the newest first", [Table(columns, cells)])


def format_day(created: str) -> str:
    """A stored time as local date and time."""
    try:
        return datetime.fromisoformat(created).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return created[:16]
