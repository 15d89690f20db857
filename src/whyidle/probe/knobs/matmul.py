"""How exactly float32 matrices are multiplied."""

from __future__ import annotations

from typing import Any

from . import Hand, nothing


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Set the precision, and let no line of the script set it back."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(str(edits["matmul.precision"]))
    hand.replace(torch, "set_float32_matmul_precision", nothing)
    hand.undo.insert(-1, lambda: torch.set_float32_matmul_precision(before))
    hand.took(*edits)
