"""All ranks as a heat map: one row per rank, one cell per step."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.rank_tables import Attribution, RankGroupRow, RankRow, WhatIf
from whyidle.reports._html.element import Markup, render_table, tag
from whyidle.reports._number_format import format_percent, format_seconds
from whyidle.reports._palette import LOOKS

WIDTH = 960
LEVELS = 10
LATE = 0.01
"""least share of the step that the others wait for a rank for it to be marked"""
_KINDS = {
    "node": "node",
    "stage": "pipeline stage",
    "replica": "data-parallel index",
    "tensor": "tensor-parallel index",
    "expert": "expert-parallel index",
}
LOST = tuple(bucket for bucket in LOOKS if bucket != "compute")


def render_ranks(diagnosis: Diagnosis) -> Markup | None:
    """Render the heat map; None for a single rank."""
    rows = diagnosis.detail.ranks
    if len(rows) < 2:
        return None
    height = row_height(rows)
    columns = max(len(row.steps) for row in rows)
    steps = f"{columns} step{'s' if columns != 1 else ''}"
    return tag(
        "section",
        tag("h2", "All ranks", tag("small", f"{len(rows)} ranks × {steps}")),
        tag(
            "p",
            tag(
                "label",
                tag("input", type="radio", name="heat", value="compute", checked=True),
                "compute",
            ),
            tag("label", tag("input", type="radio", name="heat", value="lost"), "largest loss"),
            tag("span", "less ", tag("i", class_="ramp"), " more useful compute", class_="key"),
            class_="controls",
        ),
        tag(
            "div",
            _render_heat_map(rows, height, columns, "compute"),
            _render_heat_map(rows, height, columns, "lost"),
            tag("div", class_="tip", role="status", hidden=True),
            id="heat",
            data_show="compute",
        ),
        _render_late_ranks(rows),
        _render_what_ifs(diagnosis.detail.what_if),
        _render_groups(diagnosis.detail.rank_groups),
        _render_rank_table(rows),
        id="ranks",
    )


def row_height(rows: list[RankRow]) -> int:
    """The height of a row: the more rows, the lower."""
    return max(6, min(26, 520 // len(rows)))


def _render_heat_map(rows: list[RankRow], height: int, columns: int, kind: str) -> Markup:
    width = WIDTH / max(columns, 1)
    paths: dict[str, list[str]] = defaultdict(list)
    for y, row in enumerate(rows):
        for x, shares in enumerate(row.steps):
            x0, wide = f"{x * width:.1f}", f"{max(width - 1, 0.5):.1f}"
            cell = f"M{x0} {y * height}h{wide}v{height - 1}H{x0}z"
            paths[_cell_colour(shares, kind)].append(cell)
    late = late_ranks(rows)
    every = max(1, -(-14 // height))
    near = {y + by for y in late for by in range(1 - every, every)} - set(late)
    names = [
        tag(
            "text",
            name_of(row, y),
            x=-8,
            y=y * height + height / 2 + 4,
            text_anchor="end",
            class_="late" if y in late else None,
        )
        for y, row in enumerate(rows)
        if y in late or (y % every == 0 and y not in near)
    ]
    marks = [
        tag("rect", x=-1, y=y * height - 1, width=WIDTH + 1, height=height + 1, class_="late")
        for y in late
    ]
    return tag(
        "svg",
        names,
        [tag("path", d="".join(cells), class_=shade) for shade, cells in sorted(paths.items())],
        marks,
        viewBox=f"-70 -2 {WIDTH + 72} {len(rows) * height + 4}",
        class_=kind,
        role="img",
        aria_label=f"Heat map of {len(rows)} ranks",
    )


def late_ranks(rows: list[RankRow]) -> list[int]:
    """The positions of the ranks that the others wait for, the latest first."""
    late = [
        i
        for i, row in enumerate(rows)
        if (row.lateness_s or 0.0) > LATE * (row.step_s or 0.0)
        or (row.path_ratio or 0.0) > 0.5  # more than all others together
    ]
    order = sorted(late, key=lambda i: (rows[i].lateness_s or 0.0, rows[i].path_ratio or 0.0))
    return order[::-1][:3]


def _render_late_ranks(rows: list[RankRow]) -> Markup | None:
    texts = []
    for i in late_ranks(rows):
        row, facts = rows[i], []
        if (row.lateness_s or 0.0) > LATE * (row.step_s or 0.0):
            facts.append(f"the others wait {format_seconds(row.lateness_s)} per step for it")
        if row.path_ratio:
            share = format_percent(row.path_ratio)
            facts.append(f"{share} of the critical path over the ranks runs through it")
        texts.append(f"{name_of(row, i)} ({', '.join(facts)})")
    return tag("p", f"Outlined: {'; '.join(texts)}.", class_="note") if texts else None


def _render_what_ifs(rows: list[WhatIf]) -> Markup | None:
    texts = [f"{row.name} {format_seconds(row.step_s)}" for row in rows]
    return tag("p", f"Predicted step: {', '.join(texts)}.", class_="note") if texts else None


def _render_groups(groups: list[RankGroupRow]) -> Markup | None:
    """Tables of groups, a kind each."""
    if not groups:
        return None
    heads = ["ranks", "step", "compute", "largest loss", "", "waits", "latest by", "critical path"]
    tables = []
    for kind in dict.fromkeys(group.kind for group in groups):
        body = [
            tag(
                "tr",
                tag("td", group.name),
                tag("td", group.ranks, class_="n"),
                tag("td", format_seconds(group.step_s), class_="n"),
                tag("td", format_percent(group.attribution.compute), class_="n"),
                tag("td", LOOKS[largest_loss(group.attribution)].title),  # type: ignore[index]
                tag(
                    "td",
                    format_percent(getattr(group.attribution, largest_loss(group.attribution))),
                    class_="n",
                ),
                tag("td", format_percent(group.waiting), class_="n"),
                tag("td", format_seconds(group.lateness_s), class_="n"),
                tag("td", format_percent(group.path_ratio), class_="n"),
            )
            for group in groups
            if group.kind == kind
        ]
        title = f"Ranks by {_KINDS[kind]}"
        tables.append(
            tag("details", tag("summary", title), render_table([_KINDS[kind], *heads], body))
        )
    return tag("div", *tables)


def _cell_colour(shares: Attribution, kind: str) -> str:
    if kind == "compute":
        return f"heat{min(LEVELS - 1, int(shares.compute * LEVELS))}"
    return f"fill-{largest_loss(shares)}"


def largest_loss(shares: Attribution) -> str:
    """The largest bucket except compute."""
    return max(LOST, key=lambda bucket: getattr(shares, bucket))


def name_of(row: RankRow, index: int) -> str:
    """The number of a rank, or its position if it is not recorded."""
    return f"rank {row.rank}" if row.rank is not None else f"#{index}"


def _render_rank_table(rows: list[RankRow]) -> Markup:
    late = any(row.lateness_s is not None for row in rows)
    body = [
        tag(
            "tr",
            tag("td", name_of(row, i)),
            tag("td", format_seconds(row.step_s), class_="n"),
            tag("td", format_percent(row.attribution.compute), class_="n"),
            tag("td", LOOKS[largest_loss(row.attribution)].title),  # type: ignore[index]
            tag(
                "td",
                format_percent(getattr(row.attribution, largest_loss(row.attribution))),
                class_="n",
            ),
            tag("td", format_seconds(row.lateness_s), class_="n") if late else None,
            tag("td", row.source.rsplit("/", 1)[-1]),
        )
        for i, row in enumerate(rows)
    ]
    lateness = ["arrives late by"] if late else []
    heads = ["rank", "step", "compute", "largest loss", "", *lateness, "file"]
    return tag("details", tag("summary", "Table of ranks"), render_table(heads, body))


def rank_data(diagnosis: Diagnosis) -> dict[str, Any] | None:
    """The cells for the script: shares in per mille in the order of the palette, or, if there are
    many cells, (compute, index of the largest loss, its share)."""
    rows = diagnosis.detail.ranks
    if len(rows) < 2:
        return None
    # of more cells, the script gets the two largest buckets only
    full = sum(len(row.steps) for row in rows) <= 2_000
    return {
        "height": row_height(rows),
        "full": full,
        "buckets": [look.title for look in LOOKS.values()],
        "names": [name_of(row, i) for i, row in enumerate(rows)],
        "cells": [[_encode_cell(shares, full) for shares in row.steps] for row in rows],
    }


def _encode_cell(shares: Attribution, full: bool) -> list[int]:
    if full:
        return [round(getattr(shares, bucket) * 1000) for bucket in LOOKS]
    loss = largest_loss(shares)
    return [
        round(shares.compute * 1000),
        list(LOOKS).index(loss),  # type: ignore[arg-type]
        round(getattr(shares, loss) * 1000),
    ]
