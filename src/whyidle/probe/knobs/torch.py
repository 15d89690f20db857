"""Switches of PyTorch as a whole."""

from __future__ import annotations

import functools
from typing import Any

from . import DeclinedError, Hand, nothing


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Set threads of operators, or whether deterministic algorithms are asked for, and let no line
    of the script set them back."""
    import torch

    for knob, value in edits.items():
        if knob == "torch.num_threads":
            hand.undo.append(functools.partial(torch.set_num_threads, torch.get_num_threads()))
            torch.set_num_threads(int(value))
            hand.replace(torch, "set_num_threads", nothing)
        elif knob == "torch.deterministic":
            hand.replace(torch, "use_deterministic_algorithms", nothing)
        else:
            raise DeclinedError("it has no form that could be applied while the script runs")
        hand.took(knob)
