"""The model's section of the report for a terminal."""

from __future__ import annotations

from typing import Final

from whyidle.exporters._number_format import (
    format_digits,
    format_factor,
    format_percent,
    format_seconds,
)
from whyidle.exporters._text_page import Page
from whyidle.model.architecture import Architecture, LayerRow, LayerSwap
from whyidle.model.diagnosis import Diagnosis

ROWS: Final = 8
"""layers shown unless all are asked for"""
HEADS: Final = ("share", "of roofline", "GFLOP", "calls", "layer")


def draw_model(page: Page, diagnosis: Diagnosis, full: bool) -> None:
    """Draw where the model's time goes, and what other layers would bring."""
    model = diagnosis.architecture
    if model is None:
        return
    page.write_blank_line()
    head = page.styled_text("model  ", "dim")
    page.write_paragraph(describe_model(model), style="bold", indent=2, head=head)
    if model.layers:
        shown = model.layers if full else model.layers[:ROWS]
        rows = [[f"  {first}", *rest] for first, *rest in map(layer_cells, shown)]
        page.table(["  share", *HEADS[1:]], [[page.styled_text(c) for c in row] for row in rows])
    for swap in model.swaps:
        page.write_paragraph(describe_swap(swap), label="measured  ", indent=2)
    for text in model.notes:
        page.write_paragraph(text, style="dim", indent=2)
    for text in model.unknown:
        page.write_paragraph(text, label="not known  ", indent=2)


def describe_model(model: Architecture) -> str:
    """One line: what a forward and backward pass takes, and what the device can do."""
    if model.pass_s is None:
        return "its layers were not timed"
    text = f"{format_seconds(model.pass_s)} forward and backward of {model.batch} samples"
    if model.peak_flops and model.peak_bytes:
        flops, moved = (format_digits(peak / 1e9) for peak in (model.peak_flops, model.peak_bytes))
        text += f"; this device attains {flops} GFLOP/s and {moved} GB/s"
    return text


def layer_cells(row: LayerRow) -> list[str]:
    """The cells of a layer."""
    return [
        format_percent(row.share),
        format_percent(row.attained),
        format_digits(row.flops / 1e9) if row.flops else "–",
        str(row.calls),
        f"{row.name}  {row.kind}",
    ]


def describe_swap(swap: LayerSwap) -> str:
    """What was measured of a swap, in one sentence."""
    if swap.change is None:
        return f"{swap.title}: {swap.why}"
    low, high = sorted(swap.change)
    faster = low > 1.0
    if not faster:
        low, high = 1 / high, 1 / low
    word = "faster" if faster else "slower"
    place = "" if swap.in_place else ", measured outside of the model"
    after = "" if swap.keeps else "; another model: its accuracy is not known"
    after = "; it rounds otherwise: compare losses" if swap.kind == "bfloat16" else after
    return (
        f"{swap.title}: {format_factor(low)} to {format_factor(high)} times {word}, a step of "
        f"{format_seconds(swap.step_s)}{place}{after}"
    )
