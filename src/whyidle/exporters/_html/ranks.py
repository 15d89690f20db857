"""All ranks as a heat map: one row per rank, one cell per step."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from whyidle.exporters._html.element import Markup, element
from whyidle.exporters._number_format import format_percent, format_seconds
from whyidle.exporters._palette import LOOKS
from whyidle.model.diagnosis import Attribution, Diagnosis, RankRow

WIDTH = 960
LEVELS = 10
_CELLS_IN_FULL = 2_000
"""up to this many cells the script gets every bucket of each; beyond, the leading two"""
LOST = tuple(bucket for bucket in LOOKS if bucket != "compute")


def render_ranks(diagnosis: Diagnosis) -> Markup | None:
    """The section, or None for a single rank."""
    rows = diagnosis.detail.ranks
    if len(rows) < 2:
        return None
    height = row_height(rows)
    columns = max(len(row.steps) for row in rows)
    steps = f"{columns} step{'s' if columns != 1 else ''}"
    return element(
        "section",
        element("h2", "All ranks", element("small", f"{len(rows)} ranks × {steps}")),
        element(
            "p",
            element(
                "label",
                element("input", type="radio", name="heat", value="compute", checked=True),
                "compute",
            ),
            element(
                "label", element("input", type="radio", name="heat", value="lost"), "largest loss"
            ),
            element(
                "span", "less ", element("i", class_="ramp"), " more useful compute", class_="key"
            ),
            class_="controls",
        ),
        element(
            "div",
            _render_heat_map(rows, height, columns, "compute"),
            _render_heat_map(rows, height, columns, "lost"),
            element("div", class_="tip", role="status", hidden=True),
            id="heat",
            data_show="compute",
        ),
        _render_rank_table(rows),
        id="ranks",
    )


def row_height(rows: list[RankRow]) -> int:
    """Rows get lower the more there are."""
    return max(6, min(26, 520 // len(rows)))


def _render_heat_map(rows: list[RankRow], height: int, columns: int, kind: str) -> Markup:
    width = WIDTH / max(columns, 1)
    paths: dict[str, list[str]] = defaultdict(list)
    for y, row in enumerate(rows):
        for x, shares in enumerate(row.steps):
            left, wide = f"{x * width:.1f}", f"{max(width - 1, 0.5):.1f}"
            cell = f"M{left} {y * height}h{wide}v{height - 1}H{left}z"
            paths[_cell_colour(shares, kind)].append(cell)
    every = max(1, -(-14 // height))
    names = [
        element("text", name_of(row, y), x=-8, y=y * height + height / 2 + 4, text_anchor="end")
        for y, row in enumerate(rows)
        if y % every == 0
    ]
    return element(
        "svg",
        names,
        [element("path", d="".join(cells), class_=shade) for shade, cells in sorted(paths.items())],
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
    """The largest bucket beside compute."""
    return max(LOST, key=lambda bucket: getattr(shares, bucket))


def name_of(row: RankRow, index: int) -> str:
    """A rank by its number, or its place in the list where the recording does not tell."""
    return f"rank {row.rank}" if row.rank is not None else f"#{index}"


def _render_rank_table(rows: list[RankRow]) -> Markup:
    late = any(row.lateness_s is not None for row in rows)
    body = [
        element(
            "tr",
            element("td", name_of(row, i)),
            element("td", format_seconds(row.step_s), class_="n"),
            element("td", format_percent(row.attribution.compute), class_="n"),
            element("td", LOOKS[largest_loss(row.attribution)].title),  # type: ignore[index]
            element(
                "td",
                format_percent(getattr(row.attribution, largest_loss(row.attribution))),
                class_="n",
            ),
            element("td", format_seconds(row.lateness_s), class_="n") if late else None,
            element("td", row.source.rsplit("/", 1)[-1]),
        )
        for i, row in enumerate(rows)
    ]
    heads = [
        "rank",
        "step",
        "compute",
        "largest loss",
        "",
        *(["arrives late by"] if late else []),
        "file",
    ]
    table = element(
        "table",
        element("thead", element("tr", [element("th", head) for head in heads])),
        element("tbody", body),
    )
    return element(
        "details", element("summary", "The numbers"), element("div", table, class_="scroll")
    )


def rank_data(diagnosis: Diagnosis) -> dict[str, Any] | None:
    """The cells for the script: shares in per mille, in the order of the palette, or (compute,
    index of the largest loss, its share) where there are very many."""
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
    most = largest_loss(shares)
    return [
        round(shares.compute * 1000),
        list(LOOKS).index(most),  # type: ignore[arg-type]
        round(getattr(shares, most) * 1000),
    ]
