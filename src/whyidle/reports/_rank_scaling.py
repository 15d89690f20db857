"""Predictions for other numbers of ranks, as sections."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import Final

from whyidle.model.documents.rank_scaling import Link, RankScaling, ScalePoint
from whyidle.reports import _number_format as words
from whyidle.reports._sections import Column, Facts, Headline, Line, Part, Section, Span, Table

COLUMNS: Final = (
    Column("ranks", True),
    Column("link"),
    Column("step", True),
    Column("interval", rank=1),
    Column("efficiency", True),
    Column("exchange", True, 2),
    Column("late ranks", True, 3),
    Column("first limit"),
)


def summarize_scaling(scaling: RankScaling) -> str:
    """The largest number of ranks in one sentence, with the fastest and the slowest link."""
    last = [point for point in scaling.points if point.ranks == scaling.points[-1].ranks]
    told = [last[0]] if len(last) == 1 else [last[0], last[-1]]
    steps = " to ".join(dict.fromkeys(words.format_seconds(point.step_s) for point in told))
    speeds = " to ".join(dict.fromkeys(f"{words.format_factor(_speed(p))}×" for p in told))
    limits = " or ".join(dict.fromkeys(str(point.bottleneck) for point in told))
    with_link = f" ({' to '.join(point.scenario for point in told)})" if last[0].scenario else ""
    takes, most = ("takes at least", "at most ") if last[0].bound else ("takes", "")
    return (
        f"On {last[0].ranks:,} ranks each step {takes} {steps}{with_link}: {most}{speeds} the "
        f"speed of one rank, limited by {limits}."
    )


def describe_needs(scaling: RankScaling) -> list[str]:
    """What would bring each number of ranks near linear scaling."""
    found: dict[str, dict[int, list[str]]] = {}
    for point in scaling.points:
        needed = point.needed
        if needed is None:
            continue
        ways = []
        if needed.cores is not None:
            ways.append(f"{needed.cores:,} cores on each host")
            ways.append("less host work per sample: prepare data once (whyidle prepare)")
        if needed.bytes_per_s is not None:
            ways.append(f"a link of {words.format_bytes(needed.bytes_per_s)}/s")
        if needed.batch_times is not None:
            ways.append(f"{needed.batch_times:g} times the batch of each rank")
        what = " or ".join(ways) or (
            "neither a faster link nor a larger batch is enough: ranks wait for the slowest one"
        )
        found.setdefault(what, {}).setdefault(point.ranks, []).append(point.scenario)
    all_links = Counter(point.ranks for point in scaling.points)
    target = next((point.needed.target for point in scaling.points if point.needed), 0.0)
    told = []
    for text, ranks in found.items():
        names = [
            f"{number:,}" + ("" if len(links) == all_links[number] else f" ({', '.join(links)})")
            for number, links in ranks.items()
        ]
        told.append(f"{', '.join(names)} ranks at {target:.0%}: {text}")
    return told


def describe_link(name: str, link: Link | None) -> str:
    """A link in one line."""
    if link is None:
        return f"{name}: unknown, usual links are assumed"
    latency = words.format_seconds(link.latency_s)
    speed = words.format_bytes(link.bytes_per_s)
    return f"{name}: {speed}/s and {latency}, {link.source}, within {link.spread:.0%}"


def point_cells(point: ScalePoint) -> list[str]:
    """The cells of a row."""
    interval = words.NONE
    if point.interval is not None:
        bounds = (point.interval.low, point.interval.high)
        interval = " to ".join(words.format_seconds(bound) for bound in bounds)
    least, most = ("≥ ", "≤ ") if point.bound else ("", "")
    return [
        f"{point.ranks:,}",
        point.scenario,
        least + words.format_seconds(point.step_s),
        interval,
        most + words.format_percent(point.efficiency),
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


def scaling_parts(scaling: RankScaling) -> list[Part]:
    """The largest prediction, speed by number of ranks, and what it rests on."""
    facts = [("needs", text) for text in describe_needs(scaling)]
    facts.append(("measured", describe_measured(scaling)))
    for name, link in (("within a node", scaling.within), ("between nodes", scaling.between)):
        facts.append(("link", describe_link(name, link)))
    facts.append(("command", shlex.join(scaling.command)))
    facts += [("note", note) for note in scaling.notes]
    cells: list[list[Line]] = [list(point_cells(point)) for point in scaling.points]
    return [
        Headline(summarize_scaling(scaling)),
        Section("Predictions", [Table(COLUMNS, cells)]),
        Section("", [Facts([(label, Span(text, "dim")) for label, text in facts])]),
    ]


def _speed(point: ScalePoint) -> float:
    return (point.efficiency or 0.0) * point.ranks
