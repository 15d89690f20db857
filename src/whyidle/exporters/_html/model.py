"""The model's section of a page: its layers with a bar each, and what other layers would bring."""

from __future__ import annotations

from whyidle.exporters._html.element import Markup, render_table, tag
from whyidle.exporters._model_page import HEADS, describe_model, describe_swap, layer_cells
from whyidle.model.architecture import LayerRow
from whyidle.model.diagnosis import Diagnosis

WIDTH = 120
"""of the longest bar, px"""


def render_model(diagnosis: Diagnosis) -> Markup | None:
    """Render the section; None without a look at the model."""
    model = diagnosis.architecture
    if model is None:
        return None
    longest = max((row.share for row in model.layers), default=1.0) or 1.0
    rows = [_render_layer(row, longest) for row in model.layers]
    texts = [*map(describe_swap, model.swaps), *model.notes]
    unknown = [tag("li", f"Not known: {text}.") for text in model.unknown]
    return tag(
        "section",
        tag("h2", "Model"),
        tag("p", describe_model(model)),
        render_table(("", *HEADS), rows) if rows else None,
        tag("ul", [tag("li", text) for text in texts], unknown, class_="notes"),
        id="model",
    )


def _render_layer(row: LayerRow, longest: float) -> Markup:
    width = max(round(WIDTH * row.share / longest), 1)
    bar = tag("div", class_="compute seg", style=f"width:{width}px;height:12px")
    return tag("tr", tag("td", bar), [tag("td", cell) for cell in layer_cells(row)])
