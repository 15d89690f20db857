"""Anomaly mode, which records and checks every operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import DeclinedError, KnobSession


def apply(hand: KnobSession, edits: dict[str, Any]) -> None:
    """Have it stay off, whoever asks."""
    import torch

    if edits["autograd.anomaly_mode"]:
        raise DeclinedError("it is only ever turned off")

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def set_anomaly_enabled(mode: bool, *args: Any, **kwargs: Any) -> Any:
            if mode:
                hand.record_applied(*edits)
            return original(False, *args, **kwargs)

        return set_anomaly_enabled

    hand.replace_function(torch, "set_anomaly_enabled", make)
