"""A search as sections: the best trial and a table."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from typing import Final

from whyidle.model.buckets import BUCKETS
from whyidle.model.documents.search import SOURCES, Search, SearchTrial, Value
from whyidle.model.number_text import format_duration
from whyidle.reports import _number_format as words
from whyidle.reports._html.sections import render_page
from whyidle.reports._sections import Column, Headline, Line, Paragraph, Part, Section, Table

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
    """How many trials ended how, and what they cost."""
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


def trials_table(search: Search, most: int | None = None) -> Table:
    """The trials, the best first, at most ``most``."""
    trials = rank_trials(search)[:most]
    names = [dimension.name for dimension in search.setup.dimensions]
    columns = [
        Column("trial"),
        *(Column(name, True, 1) for name in names),
        Column(metric_label(search), True),
        Column("took", True, 2),
        Column("end", rank=4),
        Column("its device", rank=3),
    ]
    rows: list[list[Line]] = [
        [
            str(trial.number),
            *(format_setting(trial.values[name]) for name in names),
            format_metric(trial.metric),
            format_length(trial.seconds),
            ENDINGS.get(trial.ending, trial.ending),
            describe_wait(trial),
        ]
        for trial in trials
    ]
    return Table(columns, rows)


def format_length(seconds: float | None) -> str:
    """A duration in seconds, from ten minutes on in minutes and from ten hours on in hours."""
    if seconds is None:
        return words.NONE
    if seconds < 600.0:
        return format_duration(seconds)
    minutes = seconds / 60.0
    return f"{minutes:.0f} min" if minutes < 600.0 else f"{minutes / 60.0:.1f} h"


def search_parts(search: Search, *, full: bool = False) -> list[Part]:
    """The best trial and a table; ``full`` shows every trial."""
    more = 0 if full else len(search.trials) - ROWS
    rest = [Paragraph(f"and {more} more (--all shows them)", tone="dim")] if more > 0 else []
    notes = [Paragraph(note, "note", "dim") for note in search.notes]
    return [
        Headline(summarize_search(search)),
        Paragraph(count_endings(search)),
        Section("", [trials_table(search, None if full else ROWS), *rest]),
        *([Section("", notes)] if notes else ()),
    ]


def render_search_page(search: Search) -> str:
    """Render a self-contained HTML page with every trial."""
    about, title = shlex.join(search.setup.command), summarize_search(search)
    return render_page(title, about, search_parts(search, full=True), search.whyidle)
