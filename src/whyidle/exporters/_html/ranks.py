"""All ranks as a heat map: one row per rank, one cell per step."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from whyidle.exporters._html.element import Markup, render_table, tag
from whyidle.exporters._number_format import format_percent, format_seconds
from whyidle.exporters._palette import LOOKS
from whyidle.model.diagnosis import Attribution, Diagnosis, RankRow

WIDTH = 960
LEVELS = 10
_CELLS_IN_FULL = 2_000
"""up to this many cells the script gets all buckets of a cell, beyond it the two largest"""
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
    every = max(1, -(-14 // height))
    names = [
        tag("text", name_of(row, y), x=-8, y=y * height + height / 2 + 4, text_anchor="end")
        for y, row in enumerate(rows)
        if y % every == 0
    ]
    return tag(
        "svg",
        names,
        [tag("path", d="".join(cells), class_=shade) for shade, cells in sorted(paths.items())],
        viewBox=f"-70 0 {WIDTH + 70} {len(rows) * height}",
        class_=kind,
        role="img",
        aria_label=f"Heat map of {len(rows)} ranks",
    )


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
    full = sum(len(row.steps) for row in rows) <= _CELLS_IN_FULL
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
