"""Renders a search for a terminal: the best trial, a table, and the front."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich.text import Text

from whyidle.exporters import _number_format as words
from whyidle.exporters._next_steps import NextStep, next_commands
from whyidle.exporters._text_page import MARGIN, Colours, Page
from whyidle.model.buckets import BUCKETS
from whyidle.model.number_text import format_duration
from whyidle.model.search import SOURCES, Search, SearchTrial, Value, improvement_rate

ROWS: Final = 12
"""trials that are shown, the best first"""
ENDINGS: Final = {"complete": "complete", "pruned": "ended early", "failed": "failed"}


def rank_trials(search: Search) -> list[SearchTrial]:
    """All trials, the best first; those without a metric last."""
    setup = search.setup
    sign = 1.0 if setup.direction == "minimize" else -1.0

    def order(trial: SearchTrial) -> tuple[bool, bool, float, int]:
        metric = trial.metric
        unusable = metric is None or not math.isfinite(metric) or not trial.is_point
        value = 0.0 if unusable or metric is None else sign * metric
        return unusable, trial.ending != "complete", value, trial.number

    return sorted(search.trials, key=order)


def format_setting(value: Value) -> str:
    """A value of a hyperparameter, short."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def format_settings(trial: SearchTrial) -> str:
    """The values of a trial, such as ``lr=0.0031 batch_size=64``."""
    return " ".join(f"{name}={format_setting(value)}" for name, value in trial.values.items())


def format_metric(value: float | None) -> str:
    """A metric with four significant digits."""
    return words.NONE if value is None else f"{value:.4g}"


def describe_wait(trial: SearchTrial) -> str:
    """What the device of a trial waited for: the cause, or the largest share."""
    verdict = trial.verdict
    if verdict is None:
        return ""
    if verdict.state == "starved":
        waits = {b: verdict.waits[b] for b in BUCKETS if b in verdict.waits}
        bucket = max(waits, key=lambda b: waits[b], default="")
        share = f" {words.format_percent(verdict.waits[bucket])}" if bucket else ""
        return f"starved: {verdict.cause or bucket}{share}"
    return str(verdict.cause or verdict.state) if verdict.state == "inefficient" else verdict.state


def summarize_search(search: Search) -> str:
    """The best trial, in one sentence."""
    best = next((t for t in search.trials if t.number == search.best), None)
    if best is None:
        return "No trial has a metric yet."
    metric = f"{metric_label(search)} {format_metric(best.metric)}"
    return f"Best: trial {best.number}, {metric} with {format_settings(best)}."


def metric_label(search: Search) -> str:
    """The metric without its placeholders, or without the prefix of its source."""
    text = search.setup.metric
    if "{}" not in text:
        source, _, name = text.partition(":")
        return name if source in SOURCES and name else text
    return " ".join(text.replace("{step}", "").replace("{}", "").split()).strip(" :=") or "metric"


def count_endings(search: Search) -> str:
    """How many trials ended how, what they cost, and how well that was predicted."""
    counts = Counter(str(trial.ending) for trial in search.trials)
    named = [f"{counts[key]} {name}" for key, name in ENDINGS.items() if counts[key]]
    again = counts["lost"] + counts["interrupted"]
    named += [f"{again} interrupted"] if again else []
    hours = sum(trial.gpu_hours or 0.0 for trial in search.trials)
    return f"{len(search.trials)} trials: {', '.join(named)}; {format_cost(hours, search)} in all."


def format_cost(hours: float, search: Search) -> str:
    """GPU-hours; hours of the machine where the CPU is the device."""
    return f"{words.format_digits(hours)} {cost_unit(search)}"


def cost_unit(search: Search) -> str:
    """What a search costs: ``GPU-hours``, or ``hours`` where nothing ran on a GPU."""
    on_gpu = any(t.verdict is not None and t.verdict.device != "cpu" for t in search.trials)
    return "GPU-hours" if on_gpu else "hours"


def table_columns(search: Search) -> list[tuple[str, list[str], int]]:
    """The columns: title, a cell for each trial, and importance where the page is narrow."""
    trials = rank_trials(search)
    columns: list[tuple[str, list[str], int]] = [("trial", [str(t.number) for t in trials], 0)]
    for dimension in search.setup.dimensions:
        name = dimension.name
        columns.append((name, [format_setting(t.values[name]) for t in trials], 1))
    columns.append((metric_label(search), [format_metric(t.metric) for t in trials], 0))
    if search.setup.objective == "rate":
        columns.append(("per hour", [_format_rate(t, search) for t in trials], 2))
    columns.append(("took", [format_length(t.seconds) for t in trials], 2))
    columns.append(("predicted", [_format_forecast(t) for t in trials], 5))
    columns.append(("end", [ENDINGS.get(t.ending, t.ending) for t in trials], 4))
    columns.append(("its device", [describe_wait(t) for t in trials], 3))
    return [column for column in columns if any(cell not in ("", words.NONE) for cell in column[1])]


def _format_rate(trial: SearchTrial, search: Search) -> str:
    start = next((t.reports[0].value for t in search.trials if t.reports), 0.0)
    rate = improvement_rate(trial, start, search.setup.direction)
    return words.NONE if rate is None else words.format_digits(rate)


def format_length(seconds: float | None) -> str:
    """A duration in seconds, from ten minutes on in minutes and from ten hours on in hours."""
    if seconds is None:
        return words.NONE
    if seconds < 600.0:
        return format_duration(seconds)
    minutes = seconds / 60.0
    return f"{minutes:.0f} min" if minutes < 600.0 else f"{minutes / 60.0:.1f} h"


def _format_forecast(trial: SearchTrial) -> str:
    return words.NONE if trial.forecast is None else format_length(trial.forecast.seconds)


def render_search(
    search: Search,
    *,
    width: int = 80,
    colours: Colours | None = None,
    full: bool = False,
    next_steps: Sequence[NextStep] = (),
) -> str:
    """Render the search as text of at most ``width`` columns; ``full`` shows every trial."""
    page = Page(width, colours)
    page.write_blank_line()
    page.write_paragraph(summarize_search(search), style="bold", indent=2)
    page.write_paragraph(count_endings(search), indent=2)
    page.write_blank_line()
    _write_table(page, search, None if full else ROWS)
    if search.setup.objective == "front" and len(search.front) > 1:
        numbers = ", ".join(map(str, search.front))
        text = f"trials {numbers}: no other trial is better in both"
        page.write_paragraph(text, style="dim", label="front ", indent=2)
    page.write_blank_line()
    for note in search.notes:
        page.write_paragraph(note, style="dim", label="note ", indent=2)
    next_commands(page, next_steps)
    return page.page_text().rstrip("\n") + "\n"


def _write_table(page: Page, search: Search, limit: int | None) -> None:
    columns = table_columns(search)
    shown = slice(limit)

    def room(column: tuple[str, list[str], int]) -> int:
        return max(len(column[0]), *(len(cell) for cell in column[1][shown])) + 1

    while len(columns) > 2 and 2 + sum(map(room, columns)) > page.width - MARGIN:
        columns.remove(max(columns, key=lambda column: column[2]))
    rows = zip(*(cells[shown] for _, cells, _ in columns), strict=True)
    table = [[Text(" "), *(page.styled_text(cell) for cell in row)] for row in rows]
    page.table(["", *(title for title, _, _ in columns)], table)
    if limit is not None and len(search.trials) > limit:
        more = len(search.trials) - limit
        page.write_paragraph(f"and {more} more (--all shows them)", style="dim", indent=2)
