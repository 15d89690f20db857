"""The page of a search: the front, the metric by hyperparameter and by step, and all trials."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from whyidle.model.documents.search import Dimension, Search, SearchTrial
from whyidle.reports._html.element import Markup, tag
from whyidle.reports._html.sections import render_page
from whyidle.reports._number_format import format_digits
from whyidle.reports._search_table import (
    cost_unit,
    describe_wait,
    format_metric,
    format_setting,
    format_settings,
    metric_label,
    search_parts,
    summarize_search,
)
from whyidle.reports._sections import Picture, Section

WIDTH: Final = 1040
_HEIGHT: Final = 300
_LEFT, _BOTTOM = 76, 40
_SHOWN: Final = 0.85
"""share of the trials between the ends of the axis of the metric; worse ones stand at its edge, so
that a few that diverge do not press all others together"""
_WIDE: Final = 20.0
"""ratio of the ends of an axis from which it is logarithmic"""


@dataclass(frozen=True, slots=True)
class _Axis:
    """Maps values to columns or rows; values beyond the ends stand at the edge."""

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        ends = self.low, self.high
        at = min(max(value, self.low), self.high)
        if self.log:
            ends, at = (math.log(self.low), math.log(self.high)), math.log(at)
        share = (at - ends[0]) / (ends[1] - ends[0]) if ends[1] > ends[0] else 0.5
        return self.begin + share * (self.end - self.begin)


def render_search_page(search: Search) -> str:
    """Render a self-contained HTML page."""
    first, second, *rest = search_parts(search, full=True)
    about, title = shlex.join(search.setup.command), summarize_search(search)
    parts = [first, second, *_pictures(search), *rest]
    return render_page(title, about, parts, search.whyidle)


def _pictures(search: Search) -> list[Section]:
    points = [t for t in search.trials if t.is_point and math.isfinite(t.metric or 0.0)]
    if len(points) < 2:
        return []
    name = metric_label(search)
    by_dimension = [
        Picture(partial(_render_dimension, search, points, d)) for d in search.setup.dimensions
    ]
    return [
        Section(f"{name} over {cost_unit(search)}", [
            Picture(partial(_render_front, search, points)), Picture(_render_legend)
        ]),
        Section(f"{name} by hyperparameter", by_dimension),
        Section(f"{name} by step", [Picture(partial(_render_curves, search, points))]),
    ]  # fmt: skip


def _metric_axis(search: Search, values: Sequence[float]) -> _Axis:
    """From the best value, at the end that is drawn at the bottom or top, to the 85 % quantile."""
    ordered = sorted(values, reverse=search.setup.direction == "maximize")
    edge = ordered[min(int(_SHOWN * len(ordered)), len(ordered) - 1)]
    low, high = sorted((ordered[0], edge))
    return _Axis(low, high, _HEIGHT, 14.0)


def _cost_axis(costs: Sequence[float]) -> _Axis:
    low, high = min(costs), max(costs)
    return _Axis(low, high, _LEFT, WIDTH - 20.0, log=low > 0.0 and high / low > _WIDE)


def _render_front(search: Search, points: list[SearchTrial]) -> Markup:
    across = _cost_axis([t.gpu_hours or 0.0 for t in points])
    up = _metric_axis(search, [t.metric or 0.0 for t in points])
    front = [t for number in search.front for t in points if t.number == number]
    where = [(across.place(t.gpu_hours or 0.0), up.place(t.metric or 0.0)) for t in front]
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in where)
    parts = [*_draw_axes(across, up, format_digits, cost_unit(search))]
    parts.append(tag("path", d=f"M{line}", fill="none", stroke="currentColor", opacity=0.5))
    parts += [
        _draw_point(search, t, across.place(t.gpu_hours or 0.0), up.place(t.metric or 0.0))
        for t in points
    ]
    parts += [_text(str(t.number), x + 8, y - 7) for t, (x, y) in zip(front, where, strict=True)]
    return _frame(parts, f"{metric_label(search)} over cost, a point for each trial")


def _render_dimension(search: Search, points: list[SearchTrial], dimension: Dimension) -> Markup:
    up = _metric_axis(search, [t.metric or 0.0 for t in points])
    if dimension.choices:
        count = len(dimension.choices)
        across = _Axis(-0.5, count - 0.5, _LEFT, WIDTH - 20.0)
        spots = {t.number: float(dimension.choices.index(t.values[dimension.name])) for t in points}
        marks = [
            _text(format_setting(choice), across.place(i), _HEIGHT + 20)
            for i, choice in enumerate(dimension.choices)
        ]
        axes = [*_draw_axes(None, up, format_digits, dimension.name), *marks]
    else:
        across = _Axis(dimension.low, dimension.high, _LEFT, WIDTH - 20.0, log=dimension.log)
        spots = {t.number: float(t.values[dimension.name]) for t in points}
        axes = _draw_axes(across, up, lambda value: f"{value:.3g}", dimension.name)
    drawn = [
        _draw_point(search, t, across.place(spots[t.number]), up.place(t.metric or 0.0))
        for t in points
    ]
    return _frame([*axes, *drawn], f"{metric_label(search)} by {dimension.name}")


def _render_curves(search: Search, points: list[SearchTrial]) -> Markup:
    steps = [float(report.step) for t in points for report in t.reports]
    values = [r.value for t in points for r in t.reports if math.isfinite(r.value)]
    across = _Axis(min(steps), max(steps), _LEFT, WIDTH - 20.0)
    up = _metric_axis(search, values)
    parts = _draw_axes(across, up, lambda value: f"{value:.0f}", "step")
    for trial in points:
        where = [
            f"{across.place(r.step):.1f} {up.place(r.value):.1f}"
            for r in trial.reports
            if math.isfinite(r.value)
        ]
        opacity = 0.95 if trial.number == search.best else 0.4
        width = 2.5 if trial.number == search.best else 1.2
        dash = None if trial.ending == "complete" else "4 3"
        title = tag("title", _describe(search, trial))
        parts.append(
            tag(
                *("path", title),
                d=f"M{'L'.join(where)}",
                fill="none",
                stroke="currentColor",
                stroke_width=width,
                opacity=opacity,
                stroke_dasharray=dash,
            )
        )
    return _frame(parts, f"{metric_label(search)} by step, a line for each trial")


def _draw_point(search: Search, trial: SearchTrial, x: float, y: float) -> Markup:
    """A circle; filled if on the front, pale if ended early, orange if starved."""
    starved = trial.verdict is not None and trial.verdict.state == "starved"
    fill = "input" if starved else "compute"
    return tag(
        "circle",
        tag("title", _describe(search, trial)),
        cx=f"{x:.1f}",
        cy=f"{y:.1f}",
        r=6 if trial.number == search.best else 4.5,
        class_=f"fill-{fill}",
        opacity=0.9 if trial.ending == "complete" else 0.35,
        stroke="currentColor" if trial.number in search.front else None,
        stroke_width=2,
    )


def _describe(search: Search, trial: SearchTrial) -> str:
    cost = f"{format_digits(trial.gpu_hours or 0.0)} {cost_unit(search)}"
    parts = [f"trial {trial.number}: {format_settings(trial)}", format_metric(trial.metric), cost]
    return ", ".join(part for part in (*parts, describe_wait(trial)) if part)


def _draw_axes(
    across: _Axis | None, up: _Axis, form: Callable[[float], str], label: str
) -> list[Markup]:
    path = f"M{_LEFT} 8V{_HEIGHT + 6}H{WIDTH - 10}"
    parts = [tag("path", d=path, fill="none", stroke="currentColor", opacity=0.35)]
    levels = (up.low, (up.low + up.high) / 2, up.high)
    parts += [_text(format_metric(level), 0, up.place(level) + 4) for level in levels]
    for share in (0.0, 0.5, 1.0):
        if across is None:
            break
        low, high = across.low, across.high
        value = low * (high / low) ** share if across.log else low + share * (high - low)
        parts.append(_text(form(value), across.place(value) - 14 * share, _HEIGHT + 22))
    return [*parts, _text(label, WIDTH - 10 - 7 * len(label), _HEIGHT + _BOTTOM - 2)]


def _render_legend() -> Markup:
    text = (
        "circled: no other trial is better in both; pale: ended early; largest: the best. The "
        "worst 15 % of values are drawn at the edge."
    )
    keys = [("compute", "not starved, or not known"), ("input", "starved")]
    dots = [tag("span", tag("i", class_=f"dot {key}"), f"{name}  ") for key, name in keys]
    return tag("p", dots, tag("small", text), class_="note")


def _frame(parts: list[Markup], label: str) -> Markup:
    box = f"0 0 {WIDTH} {_HEIGHT + _BOTTOM + 4}"
    return tag("svg", parts, viewBox=box, width="100%", role="img", aria_label=label)


def _text(text: str, x: float, y: float) -> Markup:
    return tag("text", text, x=f"{x:.1f}", y=f"{y:.1f}", fill="currentColor", font_size=12)
