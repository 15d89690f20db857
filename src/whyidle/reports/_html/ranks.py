"""All ranks as a heat map: one row per rank, one cell per step."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from whyidle.model.buckets import Bucket
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.rank_tables import Attribution, RankGroupRow, RankRow, WhatIf
from whyidle.reports._html.element import Markup, tag
from whyidle.reports._html.sections import render_parts
from whyidle.reports._number_format import format_percent, format_seconds
from whyidle.reports._palette import LEVELS, LOOKS
from whyidle.reports._sections import Column, Folded, Line, Table

WIDTH = 960
LATE = 0.01
"""least share of the step that the others wait for a rank for it to be marked"""
_KINDS = {
    "node": "node",
    "stage": "pipeline stage",
    "replica": "data-parallel index",
    "tensor": "tensor-parallel index",
    "expert": "expert-parallel index",
}
LOST: tuple[Bucket, ...] = tuple(bucket for bucket in LOOKS if bucket != "compute")
_SHARES = (Column("step", True), Column("compute", True), Column("largest loss"), Column("", True))


def render_ranks(diagnosis: Diagnosis) -> Markup | None:
    """Render the heat map; None for a single rank."""
    rows = diagnosis.detail.ranks
    if len(rows) < 2:
        return None
    columns = max(len(row.steps) for row in rows)
    steps = f"{columns} step{'s' if columns != 1 else ''}"
    tables = [*_list_groups(diagnosis.detail.rank_groups), _rank_table(rows)]
    return tag(
        "section",
        tag("h2", "All ranks", tag("small", f"{len(rows)} ranks × {steps}")),
        tag("p", "less ", tag("i", class_="ramp"), " more useful compute", class_="key"),
        tag(
            "div",
            _render_heat_map(rows, row_height(rows), columns),
            tag("div", class_="tip", role="status", hidden=True),
            id="heat",
        ),
        _render_late_ranks(rows),
        _render_what_ifs(diagnosis.detail.what_if),
        render_parts(tables),
        id="ranks",
    )


def row_height(rows: list[RankRow]) -> int:
    """The height of a row: the more rows, the lower."""
    return max(6, min(26, 520 // len(rows)))


def _render_heat_map(rows: list[RankRow], height: int, columns: int) -> Markup:
    width = WIDTH / max(columns, 1)
    paths: dict[str, list[str]] = defaultdict(list)
    for y, row in enumerate(rows):
        for x, shares in enumerate(row.steps):
            x0, wide = f"{x * width:.1f}", f"{max(width - 1, 0.5):.1f}"
            level = min(LEVELS - 1, int(shares.compute * LEVELS))
            paths[f"heat{level}"].append(f"M{x0} {y * height}h{wide}v{height - 1}H{x0}z")
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


def _list_groups(groups: list[RankGroupRow]) -> list[Folded]:
    """Tables of groups, a kind each."""
    tables = []
    for kind in dict.fromkeys(group.kind for group in groups):
        cells: list[list[Line]] = [
            [
                group.name,
                str(group.ranks),
                *_share_cells(group.step_s, group.attribution),
                format_percent(group.waiting),
                format_seconds(group.lateness_s),
                format_percent(group.path_ratio),
            ]
            for group in groups
            if group.kind == kind
        ]
        more = [Column(title, True) for title in ("waits", "latest by", "critical path")]
        columns = [Column(_KINDS[kind]), Column("ranks", True), *_SHARES, *more]
        tables.append(Folded(f"Ranks by {_KINDS[kind]}", [Table(columns, cells)]))
    return tables


def _rank_table(rows: list[RankRow]) -> Folded:
    columns = [Column("rank"), *_SHARES, Column("arrives late by", True), Column("file")]
    cells: list[list[Line]] = [
        [
            name_of(row, i),
            *_share_cells(row.step_s, row.attribution),
            format_seconds(row.lateness_s),
            row.source.rsplit("/", 1)[-1],
        ]
        for i, row in enumerate(rows)
    ]
    return Folded("Table of ranks", [Table(columns, cells)])


def _share_cells(step_s: float | None, shares: Attribution) -> list[str]:
    loss = largest_loss(shares)
    lost = format_percent(getattr(shares, loss))
    return [format_seconds(step_s), format_percent(shares.compute), LOOKS[loss].title, lost]


def largest_loss(shares: Attribution) -> Bucket:
    """The largest bucket except compute."""
    return max(LOST, key=lambda bucket: getattr(shares, bucket))


def name_of(row: RankRow, index: int) -> str:
    """The number of a rank, or its position if it is not recorded."""
    return f"rank {row.rank}" if row.rank is not None else f"#{index}"


def rank_data(diagnosis: Diagnosis) -> dict[str, Any] | None:
    """The cells for the script: compute in per mille, the index of the largest loss, and its
    share."""
    rows = diagnosis.detail.ranks
    if len(rows) < 2:
        return None
    return {
        "height": row_height(rows),
        "buckets": [look.title for look in LOOKS.values()],
        "names": [name_of(row, i) for i, row in enumerate(rows)],
        "cells": [[_encode_cell(shares) for shares in row.steps] for row in rows],
    }


def _encode_cell(shares: Attribution) -> list[int]:
    loss = largest_loss(shares)
    lost = round(getattr(shares, loss) * 1000)
    return [round(shares.compute * 1000), list(LOOKS).index(loss), lost]
