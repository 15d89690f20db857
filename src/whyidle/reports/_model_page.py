"""Where the model's time goes, as a section."""

from __future__ import annotations

from typing import Final

from whyidle.model.architecture import Architecture, LayerRow, LayerSwap
from whyidle.model.diagnosis import Diagnosis
from whyidle.reports._number_format import (
    format_digits,
    format_factor,
    format_percent,
    format_seconds,
)
from whyidle.reports._sections import Column, Facts, Items, Line, Paragraph, Part, Section, Table

COLUMNS: Final = (
    Column("share", True),
    Column("of roofline", True, 2),
    Column("GFLOP", True, 1),
    Column("calls", True, 3),
    Column("layer"),
)


def model_section(diagnosis: Diagnosis, most: int | None = None) -> Section | None:
    """Where the model's time goes, and what other layers would bring; None without a look at it."""
    model = diagnosis.architecture
    if model is None:
        return None
    parts: list[Part] = [Paragraph(describe_model(model), tone="strong")]
    if model.layers:
        parts.append(Table(COLUMNS, [layer_cells(row) for row in model.layers[:most]]))
    rows: list[tuple[str, Line]] = [("measured", describe_swap(swap)) for swap in model.swaps]
    rows += [("not known", text) for text in model.unknown]
    return Section("Model", [*parts, Facts(rows), Items(model.notes)], "model")


def describe_model(model: Architecture) -> str:
    """One line: what a forward and backward pass takes, and what the device can do."""
    if model.pass_s is None:
        return "its layers were not timed"
    text = f"{format_seconds(model.pass_s)} forward and backward of {model.batch} samples"
    if model.peak_flops and model.peak_bytes:
        flops, moved = (format_digits(peak / 1e9) for peak in (model.peak_flops, model.peak_bytes))
        text += f"; this device attains {flops} GFLOP/s and {moved} GB/s"
    return text


def layer_cells(row: LayerRow) -> list[Line]:
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
