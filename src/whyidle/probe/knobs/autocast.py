"""Runs the model's calls under autocast."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable, Mapping
from typing import Any

from . import NO_FORM, DeclinedError, KnobSession
from .model import Call, wrap_outermost


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Run the model under autocast with bfloat16. Its results are converted to float32, so that
    losses accumulate as before. Declines float16: it needs a gradient scaler in the loop."""
    if "torch" not in sys.modules:
        raise DeclinedError(NO_FORM)
    if edits.get("autocast.dtype") != "bfloat16":
        raise DeclinedError("float16 needs a GradScaler in the training loop")

    def wrap(model: Any, call: Call) -> Call:
        import torch

        kind = next((p.device.type for p in model.parameters()), "cpu")
        session.record_applied(*edits)

        def call_under_autocast(*args: Any, **kwargs: Any) -> Any:
            with torch.autocast(kind, dtype=torch.bfloat16):
                result = call(*args, **kwargs)
            return _to_float32(result)

        return call_under_autocast

    wrap_outermost(session, edits, wrap)


def _to_float32(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype == torch.bfloat16 else value
    if type(value) in (list, tuple):
        return type(value)(map(_to_float32, value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # a named one
        return type(value)(*map(_to_float32, value))
    if isinstance(value, dict):
        return _copy_as_float32(value, value, type(value).__setitem__)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
        return _copy_as_float32(value, held, object.__setattr__)
    return value


def _copy_as_float32(
    container: Any, held: Mapping[Any, Any], put: Callable[[Any, Any, Any], None]
) -> Any:
    """Copy a container with float32 values, as the model may store its result. Hugging Face's dicts
    set their attributes along with their items."""
    full = {name: _to_float32(value) for name, value in held.items()}
    others = {name: value for name, value in full.items() if value is not held[name]}
    copied = copy.copy(container) if others else container
    for name, value in others.items():
        put(copied, name, value)
    return copied
