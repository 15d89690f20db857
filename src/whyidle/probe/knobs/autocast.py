"""Lower precision where it is safe: autocast around the model's calls."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from . import DeclinedError, KnobSession
from .model import Call, wrap_outermost


def apply(hand: KnobSession, edits: dict[str, Any]) -> None:
    """Run the model under autocast with bfloat16. What it returns is float32 again, so that losses
    are summed up as before. Declines for float16, which needs a gradient scaler in the loop."""
    if edits.get("autocast.dtype") != "bfloat16":
        raise DeclinedError("float16 needs a GradScaler in the training loop")

    def wrap(model: Any, call: Call) -> Call:
        import torch

        kind = next((p.device.type for p in model.parameters()), "cpu")
        hand.record_applied(*edits)

        def under(*args: Any, **kwargs: Any) -> Any:
            with torch.autocast(kind, dtype=torch.bfloat16):
                found = call(*args, **kwargs)
            return _to_full(found)

        return under

    wrap_outermost(hand, edits, wrap)


def _to_full(found: Any) -> Any:
    import torch

    if isinstance(found, torch.Tensor):
        return found.float() if found.dtype == torch.bfloat16 else found
    if type(found) in (list, tuple):
        return type(found)(map(_to_full, found))
    if isinstance(found, tuple) and hasattr(found, "_fields"):  # a named one
        return type(found)(*map(_to_full, found))
    if isinstance(found, dict):
        return _with_full(found, found, type(found).__setitem__)
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        held = {each.name: getattr(found, each.name, None) for each in dataclasses.fields(found)}
        return _with_full(found, held, object.__setattr__)
    return found


def _with_full(found: Any, held: Mapping[Any, Any], put: Callable[[Any, Any, Any], None]) -> Any:
    """The same with full values: a copy, since the model may keep what it gives. Dicts of Hugging
    Face set their attributes along with their items."""
    full = {name: _to_full(value) for name, value in held.items()}
    others = {name: value for name, value in full.items() if value is not held[name]}
    made = copy.copy(found) if others else found
    for name, value in others.items():
        put(made, name, value)
    return made
