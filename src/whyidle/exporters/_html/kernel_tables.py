"""Kernels and kernel groups."""

from __future__ import annotations

from whyidle.exporters._html.element import Markup, element
from whyidle.exporters._number_format import format_percent, format_seconds
from whyidle.exporters._palette import KERNELS, colour_of, text_colour
from whyidle.model.diagnosis import Diagnosis, KernelRow

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
    """Both, or None where no kernel was recorded."""
    rows = diagnosis.detail.kernels
    if not rows:
        return None
    most = max(row.share for row in rows) or 1.0
    heads = [
        element(
            "th",
            element("button", title, type="button"),
            data_sort=kind,
            class_=_colour_class(kind),
            scope="col",
        )
        for title, kind in _COLUMNS
    ]
    body = [_render_row(row, most, folded=i >= FIRST_ROWS) for i, row in enumerate(rows)]
    more = len(rows) - FIRST_ROWS
    return element(
        "section",
        element(
            "h2",
            "Operators" if diagnosis.device.kind == "cpu" else "Kernels",
            element("small", f"the {len(rows)} with the most time"),
        ),
        _render_groups(diagnosis.detail.groups),
        element(
            "div",
            element(
                "table",
                element("thead", element("tr", heads)),
                element("tbody", body),
                id="kernels",
            ),
            class_="scroll",
        ),
        element(
            "p", element("button", f"Show {more} more", type="button", id="more"), class_="note"
        )
        if more > 0
        else None,
        id="kernel-section",
    )


def _colour_class(kind: str) -> str | None:
    return "n" if kind == "number" else None


def _group_title(group: str) -> str:
    return KERNELS.get(group, (group, ""))[0]


def _group_paint(group: str) -> str:
    return f"background:{colour_of(group)}"


def _render_dot(group: str) -> Markup:
    return element("i", class_="dot", style=_group_paint(group))


def _render_groups(groups: dict[str, float]) -> Markup:
    shown = [(name, share) for name, share in groups.items() if share > 0]
    bar = [
        element(
            "span",
            element("span", f"{_group_title(name)} {format_percent(share)}")
            if share >= 0.12
            else None,
            class_="seg",
            style=f"width:{share * 100:.3f}%;{_group_paint(name)};color:"
            f"{text_colour(colour_of(name))}",
            title=f"{_group_title(name)} {format_percent(share)} of kernel time",
        )
        for name, share in shown
    ]
    keys = [
        element("span", _render_dot(name), f"{_group_title(name)} {format_percent(share)}")
        for name, share in shown
    ]
    said = ", ".join(f"{_group_title(name)} {format_percent(share)}" for name, share in shown)
    return Markup(
        element("div", bar, class_="bar thin", role="img", aria_label=f"Kernel time: {said}")
        + element("p", keys, class_="keys")
    )


def _render_row(row: KernelRow, most: float, *, folded: bool) -> Markup:
    tensor = {None: "", True: "yes", False: "no"}[row.tensor_core]
    return element(
        "tr",
        element("td", element("code", row.name, title=row.name), class_="name"),
        element("td", _render_dot(row.group), _group_title(row.group)),
        element(
            "td",
            element("span", class_="share", style=f"width:{row.share / most * 100:.1f}%"),
            element("span", format_percent(row.share)),
            class_="n sharecell",
            data_value=f"{row.share:.6f}",
        ),
        element("td", format_seconds(row.total_s), class_="n", data_value=f"{row.total_s:.9f}"),
        element("td", f"{row.count:,}", class_="n", data_value=row.count),
        element(
            "td", format_seconds(row.mean_us * 1e-6), class_="n", data_value=f"{row.mean_us:.3f}"
        ),
        element("td", row.precision or ""),
        element("td", tensor, class_="no" if row.tensor_core is False else None),
        class_="folded" if folded else None,
    )
