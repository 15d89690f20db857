"""Kernels and kernel groups."""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.model.diagnosis import Diagnosis, KernelRow
from whyidle.reports._html.element import Markup, tag
from whyidle.reports._html.sections import render_parts
from whyidle.reports._number_format import format_percent, format_seconds
from whyidle.reports._palette import KERNELS, colour_of, text_colour
from whyidle.reports._sections import Column, Folded, Line, Part, Picture, Section, Span, Table
from whyidle.reports._text_page import clean_text

FIRST_ROWS = 15
_COLUMNS = (
    Column("kernel"),
    Column("group"),
    Column("share of step", number=True),
    Column("total", number=True),
    Column("count", number=True),
    Column("mean", number=True),
    Column("precision"),
    Column("tensor cores"),
)


def render_kernels(diagnosis: Diagnosis) -> Markup | None:
    """Render the kernels and their groups; None if no kernel was recorded."""
    rows, groups = diagnosis.detail.kernels, diagnosis.detail.groups
    if not rows:
        return None
    parts: list[Part] = []
    if set(groups) - {"other"}:
        parts.append(Picture(lambda: _render_groups(groups)))
    parts.append(_make_table(rows[:FIRST_ROWS]))
    if rest := rows[FIRST_ROWS:]:
        parts.append(Folded(f"{len(rest)} more", [_make_table(rest)]))
    title = "Operators" if diagnosis.device.kind == "cpu" else "Kernels"
    return Markup("".join(render_parts([Section(f"{title} with the most time", parts, "kernels")])))


def _make_table(rows: Sequence[KernelRow]) -> Table:
    return Table(_COLUMNS, [_list_cells(row) for row in rows])


def _list_cells(row: KernelRow) -> list[Line]:
    tensor = {None: "", True: "yes", False: "no"}[row.tensor_core]
    return [
        # names of C++ templates have thousands of characters
        Span(clean_text(row.name, 100), "code"),
        _group_title(row.group),
        format_percent(row.share),
        format_seconds(row.total_s),
        f"{row.count:,}",
        format_seconds(row.mean_us * 1e-6),
        row.precision or "",
        Span(tensor, "caution") if row.tensor_core is False else tensor,
    ]


def _group_title(group: str) -> str:
    return KERNELS.get(group, (group, ""))[0]


def _render_groups(groups: dict[str, float]) -> Markup:
    shown = [
        (_group_title(name), colour_of(name), share) for name, share in groups.items() if share > 0
    ]
    bar = [
        tag(
            "span",
            tag("span", f"{title} {format_percent(share)}") if share >= 0.12 else None,
            class_="seg",
            style=f"width:{share * 100:.3f}%;background:{colour};color:{text_colour(colour)}",
            title=f"{title} {format_percent(share)} of kernel time",
        )
        for title, colour, share in shown
    ]
    keys = [
        tag(
            "span",
            tag("i", class_="dot", style=f"background:{colour}"),
            f"{title} {format_percent(share)}",
        )
        for title, colour, share in shown
    ]
    label = ", ".join(f"{title} {format_percent(share)}" for title, _, share in shown)
    return Markup(
        tag("div", bar, class_="bar thin", role="img", aria_label=f"Kernel time: {label}")
        + tag("p", keys, class_="keys")
    )
