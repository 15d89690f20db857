"""Kernels and kernel groups."""

from __future__ import annotations

from whyidle.model.diagnosis import Diagnosis, KernelRow
from whyidle.reports._html.element import Markup, tag
from whyidle.reports._number_format import format_percent, format_seconds
from whyidle.reports._palette import KERNELS, colour_of, text_colour

FIRST_ROWS = 15
_COLUMNS = (
    ("kernel", "text"),
    ("group", "text"),
    ("share of step", "number"),
    ("total", "number"),
    ("count", "number"),
    ("mean", "number"),
    ("precision", "text"),
    ("tensor cores", "text"),
)


def render_kernels(diagnosis: Diagnosis) -> Markup | None:
    """Render the kernels and their groups; None if no kernel was recorded."""
    rows = diagnosis.detail.kernels
    if not rows:
        return None
    groups, largest = diagnosis.detail.groups, max(row.share for row in rows) or 1.0
    heads = [
        tag(
            "th",
            tag("button", title, type="button"),
            data_sort=kind,
            class_="n" if kind == "number" else None,
            scope="col",
        )
        for title, kind in _COLUMNS
    ]
    body = [_render_row(row, largest, folded=i >= FIRST_ROWS) for i, row in enumerate(rows)]
    more = len(rows) - FIRST_ROWS
    return tag(
        "section",
        tag(
            "h2",
            "Operators" if diagnosis.device.kind == "cpu" else "Kernels",
            tag("small", f"the {len(rows)} with the most time"),
        ),
        _render_groups(groups) if set(groups) - {"other"} else None,
        tag(
            "div",
            tag("table", tag("thead", tag("tr", heads)), tag("tbody", body), id="kernels"),
            class_="scroll",
        ),
        tag("p", tag("button", f"Show {more} more", type="button", id="more"), class_="note")
        if more > 0
        else None,
        id="kernel-section",
    )


def _group_title(group: str) -> str:
    return KERNELS.get(group, (group, ""))[0]


def _group_paint(group: str) -> str:
    return f"background:{colour_of(group)}"


def _render_dot(group: str) -> Markup:
    return tag("i", class_="dot", style=_group_paint(group))


def _render_groups(groups: dict[str, float]) -> Markup:
    shown = [(name, share) for name, share in groups.items() if share > 0]
    bar = [
        tag(
            "span",
            tag("span", f"{_group_title(name)} {format_percent(share)}") if share >= 0.12 else None,
            class_="seg",
            style=f"width:{share * 100:.3f}%;{_group_paint(name)};color:"
            f"{text_colour(colour_of(name))}",
            title=f"{_group_title(name)} {format_percent(share)} of kernel time",
        )
        for name, share in shown
    ]
    keys = [
        tag("span", _render_dot(name), f"{_group_title(name)} {format_percent(share)}")
        for name, share in shown
    ]
    label = ", ".join(f"{_group_title(name)} {format_percent(share)}" for name, share in shown)
    return Markup(
        tag("div", bar, class_="bar thin", role="img", aria_label=f"Kernel time: {label}")
        + tag("p", keys, class_="keys")
    )


def _render_row(row: KernelRow, largest: float, *, folded: bool) -> Markup:
    tensor = {None: "", True: "yes", False: "no"}[row.tensor_core]
    return tag(
        "tr",
        tag("td", tag("code", row.name, title=row.name), class_="name"),
        tag("td", _render_dot(row.group), _group_title(row.group)),
        tag(
            "td",
            tag("span", class_="share", style=f"width:{row.share / largest * 100:.1f}%"),
            tag("span", format_percent(row.share)),
            class_="n sharecell",
            data_value=f"{row.share:.6f}",
        ),
        tag("td", format_seconds(row.total_s), class_="n", data_value=f"{row.total_s:.9f}"),
        tag("td", f"{row.count:,}", class_="n", data_value=row.count),
        tag("td", format_seconds(row.mean_us * 1e-6), class_="n", data_value=f"{row.mean_us:.3f}"),
        tag("td", row.precision or ""),
        tag("td", tensor, class_="no" if row.tensor_core is False else None),
        class_="folded" if folded else None,
    )
