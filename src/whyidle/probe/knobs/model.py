"""The model as a whole: compiled, or laid out for convolutions.

The model is the outermost module that is first called with gradients on. It is changed through its
class, so that it can still be pickled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from . import DeclinedError, Hand

Call = Callable[..., Any]
COMPILE = ("model.compile", "model.compile_mode", "model.compile_dynamic")


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Compile its forward pass, or set its memory format."""
    known = {*COMPILE, "model.memory_format"}
    if unknown := [knob for knob in edits if knob not in known]:
        raise DeclinedError(f"{', '.join(unknown)}: it needs another line in the script")
    outermost(hand, functools.partial(_change, hand, edits))


def outermost(hand: Hand, wrap: Callable[[Any, Call], Call]) -> None:
    """Wrap the calls of the model, once it is seen: ``wrap(model, call)`` gives the new call."""
    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook

    def before(module: Any, args: Any) -> None:
        if not torch.is_grad_enabled() or not any(p.requires_grad for p in module.parameters()):
            return
        handle.remove()
        kind = type(module)
        original = kind.__call__
        wrapped = wrap(module, functools.partial(original, module))

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            return wrapped(*args, **kwargs) if self is module else original(self, *args, **kwargs)

        hand.replace(kind, "__call__", lambda _: call)

    handle = register_module_forward_pre_hook(before)
    hand.undo.append(handle.remove)


def _change(hand: Hand, edits: dict[str, Any], model: Any, call: Call) -> Call:
    import torch

    asked = [knob for knob in edits if knob in COMPILE]
    if asked:
        mode, dynamic = edits.get("model.compile_mode"), edits.get("model.compile_dynamic")
        model.compile(mode=mode, dynamic=dynamic)  # in place: its calls are compiled from now on
        hand.took(*asked)
    if edits.get("model.memory_format") != "channels_last":
        return call
    model.to(memory_format=torch.channels_last)
    hand.took("model.memory_format")

    def laid_out(*args: Any, **kwargs: Any) -> Any:
        return call(*map(_last, args), **kwargs)

    return laid_out


def _last(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor) and value.dim() == 4:
        return value.contiguous(memory_format=torch.channels_last)
    return value
