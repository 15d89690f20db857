"""Kernels and kernel groups."""

from __future__ import annotations

from whyidle.exporters._html.element import Markup, e
from whyidle.exporters._palette import KERNELS, colour_of, ink
from whyidle.exporters._words import percent, seconds
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


def kernels(diagnosis: Diagnosis) -> Markup | None:
    """Both, or None where no kernel was recorded."""
    rows = diagnosis.detail.kernels
    if not rows:
        return None
    most = max(row.share for row in rows) or 1.0
    heads = [
        e("th", e("button", title, type="button"), data_sort=kind, class_=_class(kind), scope="col")
        for title, kind in _COLUMNS
    ]
    body = [_row(row, most, folded=i >= FIRST_ROWS) for i, row in enumerate(rows)]
    more = len(rows) - FIRST_ROWS
    return e(
        "section",
        e(
            "h2",
            "Operators" if diagnosis.device.kind == "cpu" else "Kernels",
            e("small", f"the {len(rows)} with the most time"),
        ),
        _groups(diagnosis.detail.groups),
        e(
            "div",
            e("table", e("thead", e("tr", heads)), e("tbody", body), id="kernels"),
            class_="scroll",
        ),
        e("p", e("button", f"Show {more} more", type="button", id="more"), class_="note")
        if more > 0
        else None,
        id="kernel-section",
    )


def _class(kind: str) -> str | None:
    return "n" if kind == "number" else None


def _title(group: str) -> str:
    return KERNELS.get(group, (group, ""))[0]


def _paint(group: str) -> str:
    return f"background:{colour_of(group)}"


def _dot(group: str) -> Markup:
    return e("i", class_="dot", style=_paint(group))


def _groups(groups: dict[str, float]) -> Markup:
    shown = [(name, share) for name, share in groups.items() if share > 0]
    bar = [
        e(
            "span",
            e("span", f"{_title(name)} {percent(share)}") if share >= 0.12 else None,
            class_="seg",
            style=f"width:{share * 100:.3f}%;{_paint(name)};color:{ink(colour_of(name))}",
            title=f"{_title(name)} {percent(share)} of kernel time",
        )
        for name, share in shown
    ]
    keys = [
        e(
            "span",
            _dot(name),
            f"{_title(name)} {percent(share)}",
        )
        for name, share in shown
    ]
    said = ", ".join(f"{_title(name)} {percent(share)}" for name, share in shown)
    return Markup(
        e("div", bar, class_="bar thin", role="img", aria_label=f"Kernel time: {said}")
        + e("p", keys, class_="keys")
    )


def _row(row: KernelRow, most: float, *, folded: bool) -> Markup:
    tensor = {None: "", True: "yes", False: "no"}[row.tensor_core]
    return e(
        "tr",
        e("td", e("code", row.name, title=row.name), class_="name"),
        e(
            "td",
            _dot(row.group),
            _title(row.group),
        ),
        e(
            "td",
            e("span", class_="share", style=f"width:{row.share / most * 100:.1f}%"),
            e("span", percent(row.share)),
            class_="n sharecell",
            data_value=f"{row.share:.6f}",
        ),
        e("td", seconds(row.total_s), class_="n", data_value=f"{row.total_s:.9f}"),
        e("td", f"{row.count:,}", class_="n", data_value=row.count),
        e("td", seconds(row.mean_us * 1e-6), class_="n", data_value=f"{row.mean_us:.3f}"),
        e("td", row.precision or ""),
        e("td", tensor, class_="no" if row.tensor_core is False else None),
        class_="folded" if folded else None,
    )
