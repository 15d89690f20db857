"""Renders predictions for other numbers of ranks for a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from whyidle.exporters import _number_format as words
from whyidle.exporters._next_steps import NextStep, next_commands
from whyidle.exporters._text_page import Colours, Page
from whyidle.model.rank_scaling import Link, RankScaling, ScalePoint

HEADS: Final = ("ranks", "step", "interval", "efficiency", "exchange", "late ranks", "first limit")


def summarize_scaling(scaling: RankScaling) -> str:
    """The largest predicted number of ranks in one sentence."""
    known = [point for point in scaling.points if point.step_s is not None]
    if not known:
        return f"No number of ranks can be predicted: {scaling.points[0].why}."
    last = known[-1]
    speed = words.format_factor((last.efficiency or 0.0) * last.ranks)
    return (
        f"On {last.ranks} ranks each step takes {words.format_seconds(last.step_s)}: "
        f"{speed}× the speed of one rank, limited by {last.bottleneck}."
    )


def describe_needs(scaling: RankScaling) -> list[str]:
    """What would bring each number of ranks near linear scaling."""
    found: dict[str, list[str]] = {}
    for point in scaling.points:
        if point.needed is None:
            continue
        ways = []
        if point.needed.bytes_per_s is not None:
            ways.append(f"a link of {words.format_bytes(point.needed.bytes_per_s)}/s")
        if point.needed.batch_times is not None:
            ways.append(f"{point.needed.batch_times:g} times the batch of each rank")
        what = " or ".join(ways) or (
            "neither a faster link nor a larger batch is enough: ranks wait for the slowest one"
        )
        found.setdefault(f" ranks at {point.needed.target:.0%}: {what}", []).append(
            str(point.ranks)
        )
    return [", ".join(ranks) + text for text, ranks in found.items()]


def describe_link(name: str, link: Link | None) -> str:
    """A link in one line."""
    if link is None:
        return f"{name}: not known"
    latency = words.format_seconds(link.latency_s)
    speed = words.format_bytes(link.bytes_per_s)
    return f"{name}: {speed}/s and {latency}, {link.source}, within {link.spread:.0%}"


def point_cells(point: ScalePoint) -> list[str]:
    """The cells of a row."""
    interval = words.NONE
    if point.interval is not None:
        bounds = (point.interval.low, point.interval.high)
        interval = " to ".join(words.format_seconds(bound) for bound in bounds)
    return [
        str(point.ranks),
        words.format_seconds(point.step_s),
        interval,
        words.format_percent(point.efficiency),
        words.format_percent(point.exchange),
        words.format_percent(point.late),
        point.bottleneck or "not known",
    ]


def describe_measured(scaling: RankScaling) -> str:
    """What was measured, in one line."""
    own = words.format_seconds(scaling.own_s)
    spread = words.format_seconds(scaling.own_spread_s)
    ranks = f"{scaling.measured_ranks} rank{'s' if scaling.measured_ranks > 1 else ''}"
    sent = words.format_bytes(sum(scaling.buckets))
    return (
        f"{scaling.steps} steps of {ranks}: {own} ± {spread} of own work, {sent} of gradients in "
        f"{len(scaling.buckets)} exchange{'s' if len(scaling.buckets) > 1 else ''}"
    )


def render_scaling(
    scaling: RankScaling,
    *,
    width: int = 80,
    colours: Colours | None = None,
    next_steps: Sequence[NextStep] = (),
) -> str:
    """Render the predictions as text."""
    page = Page(width, colours)
    page.write_blank_line()
    page.write_paragraph(summarize_scaling(scaling), style="bold", indent=2)
    page.write_blank_line()
    rows = [[page.styled_text(c) for c in point_cells(point)] for point in scaling.points]
    page.table(HEADS, rows)
    page.write_blank_line()
    for text in describe_needs(scaling):
        page.write_paragraph(text, label="needs ", indent=2)
    for row in scaling.what_if:
        text = f"{row.name}: {words.format_seconds(row.step_s)} a step on as many ranks as now"
        page.write_paragraph(text, label="what if ", indent=2)
    page.write_paragraph(describe_measured(scaling), style="dim", label="measured ", indent=2)
    for name, link in (("within a node", scaling.within), ("between nodes", scaling.between)):
        page.write_paragraph(describe_link(name, link), style="dim", label="link ", indent=2)
    page.write_paragraph(shlex.join(scaling.command), style="dim", label="command ", indent=2)
    for note in [*scaling.notes, *_reasons(scaling)]:
        page.write_paragraph(note, style="dim", label="note ", indent=2)
    next_commands(page, next_steps)
    return page.page_text()


def _reasons(scaling: RankScaling) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for point in scaling.points:
        if point.why is not None:
            reasons.setdefault(point.why, []).append(str(point.ranks))
    return [f"{', '.join(ranks)} ranks: {why}" for why, ranks in reasons.items()]
