"""Who holds memory: a bar of the owners at the peak, the level over a pass, and tables."""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.exporters._html.element import Markup, render_table, tag
from whyidle.exporters._memory_page import (
    describe_death,
    describe_peak,
    list_advice,
    list_notes,
    option_cells,
)
from whyidle.exporters._number_format import format_bytes, format_percent, format_seconds
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.memory import MemoryAccount

COLOURS = {
    "parameters": "#4e79a7",
    "buffers": "#9c755f",
    "gradients": "#d9a441",
    "optimizer state": "#86b35a",
    "activations": "#019688",
    "workspace": "#a06fa8",
    "batch": "#f39116",
    "results": "#d37295",
}
OTHER = "#8b949e"
WIDTH, HEIGHT = 1000, 150
"""of the curve, in units of its view box"""


def render_memory(diagnosis: Diagnosis) -> Markup | None:
    """Render the section; None without a look at memory."""
    account = diagnosis.memory
    if account is None or (account.death is not None and account.peak is None):
        return None
    texts = [*list_advice(account), *list_notes(account)]
    unknown = [tag("li", f"Not known: {text}.") for text in account.unknown]
    return tag(
        "section",
        tag("h2", "Memory"),
        tag("p", describe_peak(account)),
        _render_parts(account),
        _render_curve(account),
        _render_options(account),
        _render_modules(account),
        tag("ul", [tag("li", text) for text in texts], unknown, class_="notes"),
        id="memory",
    )


def render_death(diagnosis: Diagnosis) -> Markup | None:
    """Render what held memory when the job died for lack of it."""
    death = diagnosis.memory.death if diagnosis.memory else None
    if death is None:
        return None
    rows = [
        tag("tr", tag("td", part.owner), tag("td", format_bytes(part.bytes), class_="n"))
        for part in death.parts
    ]
    return tag(
        "section",
        tag("h2", "Out of memory"),
        tag("p", tag("b", describe_death(death))),
        render_table(["held by", "bytes"], rows) if rows else None,
        tag("p", "Largest variables: ", ", ".join(death.largest)) if death.largest else None,
        tag("p", tag("b", "Grew: "), death.growth) if death.growth else None,
        tag("p", tag("b", "Would have fitted: "), death.change),
        id="out-of-memory",
    )


def _render_parts(account: MemoryAccount) -> Markup:
    whole = sum(part.bytes for part in account.parts) or 1
    segments, keys = [], []
    for part in account.parts:
        share, colour = part.bytes / whole, COLOURS.get(part.owner, OTHER)
        title = f"{part.owner}: {format_bytes(part.bytes)}, {format_percent(share)}"
        shown = tag("span", part.owner) if share > 0.1 else None
        style = f"flex:{share:.5f} 0 0;background:{colour};color:#fff"
        segments.append(tag("div", shown, class_="seg", style=style, title=title))
        dot = tag("span", class_="dot", style=f"background:{colour}")
        keys.append(
            tag("li", dot, tag("b", format_bytes(part.bytes)), tag("span", part.owner, " ",
                tag("small", format_percent(share))))
        )  # fmt: skip
    return Markup(tag("div", segments, class_="bar") + tag("ul", keys, class_="legend"))


def _render_curve(account: MemoryAccount) -> Markup | None:
    if not account.curve:
        return None
    top = max(level for _, level in account.curve) or 1
    points = _outline(account.curve, top)
    picture = tag(
        "svg",
        tag("title", "Memory of a forward and backward pass over its time"),
        tag("path", d=points, fill=COLOURS["activations"], fill_opacity=0.75),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        width="100%",
        height=HEIGHT,
    )
    caption = (
        f"One forward and backward pass over its time, computed again with the profiler: up to "
        f"{format_bytes(top)} above what outlives the step."
    )
    return tag("figure", picture, tag("figcaption", caption))


def _outline(curve: Sequence[tuple[float, int]], top: int) -> str:
    path, last = [f"M0 {HEIGHT}"], 0.0
    for share, level in curve:
        height = HEIGHT - (HEIGHT - 4) * level / top
        path.append(f"L{share * WIDTH:.0f} {last or HEIGHT:.1f} L{share * WIDTH:.0f} {height:.1f}")
        last = height
    return " ".join([*path, f"L{WIDTH} {last:.1f} L{WIDTH} {HEIGHT}Z"])


def _render_options(account: MemoryAccount) -> Markup | None:
    """Peaks of other settings as bars below the limit."""
    if not account.options or not account.peak:
        return None
    top = max([account.peak, *(o.peak or 0 for o in account.options if not o.far)])
    rows = [(o.change, o.peak, option_cells(o)) for o in account.options]
    cells = [
        tag(
            "tr",
            tag("td", change),
            tag("td", text[3]),
            tag("td", text[0], class_="n"),
            tag("td", tag("span", class_="share", style=f"width:{(peak or 0) / top:.1%}"),
                class_="sharecell"),
            tag("td", text[1], class_="n"),
            tag("td", text[2], class_="n"),
        )
        for change, peak, text in rows
    ]  # fmt: skip
    heads = ["change", "setting", "predicted peak", "", "step", "samples/s"]
    return render_table(heads, cells)


def _render_modules(account: MemoryAccount) -> Markup | None:
    if not account.modules:
        return None
    top = account.modules[0].activations or 1
    rows = [
        tag(
            "tr",
            tag("td", tag("code", row.name)),
            tag("td", row.kind),
            tag("td", format_bytes(row.activations), class_="n"),
            tag("td", tag("span", class_="share", style=f"width:{row.activations / top:.1%}"),
                class_="sharecell"),
            tag("td", format_seconds(row.forward_s), class_="n"),
        )
        for row in account.modules
    ]  # fmt: skip
    heads = ["module", "class", "kept for its backward pass", "", "forward pass"]
    summary = f"Activations of {len(rows)} modules"
    return tag("details", tag("summary", summary), render_table(heads, rows))
