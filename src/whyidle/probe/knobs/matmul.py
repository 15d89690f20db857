"""Sets the precision of float32 matrix multiplications."""

from __future__ import annotations

from typing import Any

from . import KnobSession, do_nothing


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Set the precision, and ignore the script's own setting."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(str(edits["matmul.precision"]))
    session.replace_function(torch, "set_float32_matmul_precision", do_nothing)
    session.undo.insert(-1, lambda: torch.set_float32_matmul_precision(before))
    session.record_applied(*edits)
