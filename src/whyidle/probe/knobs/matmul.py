"""How exactly float32 matrices are multiplied."""

from __future__ import annotations

from typing import Any

from . import KnobSession, do_nothing


def apply(hand: KnobSession, edits: dict[str, Any]) -> None:
    """Set the precision, and let no line of the script set it back."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(str(edits["matmul.precision"]))
    hand.replace_function(torch, "set_float32_matmul_precision", do_nothing)
    hand.undo.insert(-1, lambda: torch.set_float32_matmul_precision(before))
    hand.record_applied(*edits)
