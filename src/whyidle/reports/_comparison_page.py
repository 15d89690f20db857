"""A comparison of two runs, as sections."""

from __future__ import annotations

import re
from collections.abc import Sequence

from whyidle.model.documents.comparison import Change, Comparison, Side
from whyidle.reports import _number_format as words
from whyidle.reports._sections import (
    Column,
    Facts,
    Headline,
    Line,
    Paragraph,
    Part,
    Section,
    Span,
    Table,
    Tone,
)

_BRACKETS = re.compile(r"<[^<>]*>|\([^()]*\)(?=::)")


def comparison_parts(comparison: Comparison, *, full: bool = False) -> list[Part]:
    """What changed between two runs; ``full`` lists every change."""
    sides = [
        (label, f"{_source(side)}: {side.state}, {side.headline}")
        for label, side in (("before", comparison.before), ("after", comparison.after))
    ]
    timed = comparison.before.step_s is not None and comparison.after.step_s is not None
    limit = None if full else 6
    parts: list[Part] = [Headline(_headline(comparison)), Section("", [Facts(sides)])]
    for title, changes in (
        ("Where the step's time goes", comparison.buckets),
        ("Finer reasons", comparison.reasons),
        ("Kernels", comparison.kernels),
    ):
        if changes:
            parts.append(_changes_section(title, changes[:limit], timed))
    causes: list[tuple[str, list[str], Tone]] = [
        ("gone", comparison.gone, "good"),
        ("new", comparison.appeared, "bad"),
    ]
    lines: list[Part] = [
        Paragraph(", ".join(listed), f"{name}:", tone) for name, listed, tone in causes if listed
    ]
    notes = [Paragraph(note, "note", "dim") for note in comparison.notes]
    return [*parts, Section("", [*lines, *notes])] if lines or notes else parts


def _source(side: Side) -> str:
    return side.sources[0] if len(side.sources) == 1 else f"{len(side.sources)} recordings"


def _headline(comparison: Comparison) -> str:
    step = comparison.step
    if step is None:
        return "The step times cannot be compared: one run has fewer than two steady steps."
    change = (
        f"{words.format_seconds(comparison.before.step_s)} to "
        f"{words.format_seconds(comparison.after.step_s)}"
    )
    spread = f"95% interval {step.low:.2f} to {step.high:.2f}"
    if (times := comparison.times_the_samples) != 1.0:
        rates = [f"{s.samples_per_s or 0:,.0f}" for s in (comparison.before, comparison.after)]
        return (
            f"{times / step.ratio:.2f}× the samples per second: {rates[0]} to {rates[1]}. A step "
            f"has {times:.2g} times the samples and takes {step.ratio:.2f} times as long "
            f"({change}, {spread})."
        )
    if not step.real:
        return (
            f"The step time did not change significantly ({change}): ratio {step.ratio:.2f}, "
            f"{spread}."
        )
    if step.ratio < 1.0:
        faster = f"{1 / step.ratio:.2f}× as fast"
        return f"The step is {faster}: {change} (time ratio {step.ratio:.2f}, {spread})."
    return f"The step is {step.ratio - 1:.0%} slower: {change} (ratio {step.ratio:.2f}, {spread})."


def _changes_section(title: str, changes: Sequence[Change], timed: bool) -> Section:
    cells: list[list[Line]] = []
    for change in changes:
        tone: Tone = "good" if change.delta_s < 0 else "bad"
        name = change.name.replace("_", " ") if change.bucket else shorten_kernel_name(change.name)
        meaning = f" ({change.meaning})" if change.meaning else ""
        cells.append([
            Span(_format_difference(change.delta_s, timed), tone),
            _format_value(change.before_s, timed), _format_value(change.after_s, timed),
            [name, Span(meaning, "dim")],
        ])  # fmt: skip
    columns = [Column("change", True), Column("before", True), Column("after", True), Column("of")]
    return Section(f"{title}{'' if timed else ' (shares)'}", [Table(columns, cells)])


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
