"""The page of predictions for other numbers of ranks: speed against ranks, and a table."""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Callable
from typing import Final

from whyidle.exporters._html.element import Markup, render_table, tag
from whyidle.exporters._html.page import assemble_plain_page
from whyidle.exporters._number_format import format_factor, format_seconds
from whyidle.exporters._rank_scaling import (
    HEADS,
    describe_link,
    describe_measured,
    describe_needs,
    point_cells,
    summarize_scaling,
)
from whyidle.model.rank_scaling import RankScaling, ScalePoint

WIDTH: Final = 760
_HEIGHT: Final = 300
_LEFT: Final = 60
_TOP: Final = 20
_BOTTOM: Final = 44


def render_page(scaling: RankScaling, version: str) -> str:
    """Render a self-contained HTML page."""
    heading = summarize_scaling(scaling)
    rows = [tag("tr", [tag("td", c) for c in point_cells(point)]) for point in scaling.points]
    texts = [
        *describe_needs(scaling),
        *(f"What if {row.name}: {format_seconds(row.step_s)} a step." for row in scaling.what_if),
        describe_measured(scaling),
        describe_link("within a node", scaling.within),
        describe_link("between nodes", scaling.between),
        *scaling.notes,
        *(f"{point.ranks} ranks: {point.why}" for point in scaling.points if point.why),
    ]
    sections = [
        tag("section", tag("h1", heading)),
        tag("section", tag("h2", "Speed by number of ranks"), _render_picture(scaling)),
        tag("section", tag("h2", "Predictions"), render_table(HEADS, rows)),
        tag("section", [tag("p", text, class_="note") for text in texts]),
    ]
    return assemble_plain_page(heading, shlex.join(scaling.command), sections, version)


def _render_picture(scaling: RankScaling) -> Markup:
    """Draw the speed relative to one rank, with its interval, and the diagonal of linear scaling;
    both axes are logarithmic."""
    known = [point for point in scaling.points if point.step_s is not None]
    most = max((point.ranks for point in known), default=1)
    decades = max(math.log2(most), 1.0)

    def place_x(ranks: float) -> float:
        return _LEFT + (WIDTH - _LEFT - 20) * math.log2(max(ranks, 1.0)) / decades

    def place_y(speed: float) -> float:
        return _TOP + _HEIGHT * (1.0 - math.log2(max(speed, 1.0)) / decades)

    parts = [_line(place_x(1), place_y(1), place_x(most), place_y(most), dash=True)]
    parts += [
        _text(f"{2**power:g}×", 0, place_y(2**power) + 4) for power in range(int(decades) + 1)
    ]
    for point in known:
        parts += _draw_point(point, scaling.own_s, place_x(point.ranks), place_y)
    for before, after in itertools.pairwise(known):
        parts.append(
            _line(
                place_x(before.ranks),
                place_y(_speed(before)),
                place_x(after.ranks),
                place_y(_speed(after)),
            )
        )
    parts.append(_text("ranks; dashed: linear", _LEFT, _TOP + _HEIGHT + _BOTTOM - 6))
    return tag(
        "svg",
        parts,
        viewBox=f"0 0 {WIDTH} {_TOP + _HEIGHT + _BOTTOM}",
        width="100%",
        style=f"max-width:{WIDTH}px",
        role="img",
        aria_label="Speed relative to one rank, by number of ranks",
    )


def _speed(point: ScalePoint) -> float:
    return (point.efficiency or 0.0) * point.ranks


def _draw_point(
    point: ScalePoint, own_s: float, x: float, place: Callable[[float], float]
) -> list[Markup]:
    y = place(_speed(point))
    parts = [_text(str(point.ranks), x - 4, _TOP + _HEIGHT + 20)]
    if point.interval is not None:
        ends = [
            place(own_s * point.ranks / bound)
            for bound in (point.interval.low, point.interval.high)
        ]
        parts.append(_line(x, ends[0], x, ends[1], wide=True))
    title = f"{point.ranks} ranks: {format_factor(_speed(point))}×"
    parts.append(
        tag("circle", tag("title", title), cx=f"{x:.1f}", cy=f"{y:.1f}", r=4, class_="fill-compute")
    )
    return parts


def _line(
    x: float, y: float, to_x: float, to_y: float, *, dash: bool = False, wide: bool = False
) -> Markup:
    return tag(
        "line",
        x1=f"{x:.1f}",
        y1=f"{y:.1f}",
        x2=f"{to_x:.1f}",
        y2=f"{to_y:.1f}",
        stroke="currentColor",
        stroke_width=3 if wide else 1,
        stroke_opacity=0.35 if wide else 0.8,
        **({"stroke_dasharray": "5 4"} if dash else {}),
    )


def _text(text: str, x: float, y: float) -> Markup:
    return tag("text", text, x=f"{x:.1f}", y=f"{y:.1f}", fill="currentColor", font_size=12)
