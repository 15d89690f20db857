"""Disables anomaly mode, which records and checks every operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import DeclinedError, KnobSession


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Keep anomaly mode off."""
    import torch

    if edits["autograd.anomaly_mode"]:
        raise DeclinedError("anomaly mode can only be turned off")

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def set_anomaly_enabled(mode: bool, *args: Any, **kwargs: Any) -> Any:
            if mode:
                session.record_applied(*edits)
            return original(False, *args, **kwargs)

        return set_anomaly_enabled

    session.replace_function(torch, "set_anomaly_enabled", make)
