"""Copies to the device: that the host need not wait for, and of fewer bytes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from . import Hand, _narrowing

KNOB = "copy.non_blocking"


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Have copies to the device waited for less, or make them smaller."""
    if edits.get(KNOB):
        _without_waiting(hand)
    if edits.get(_narrowing.KNOB):
        _narrowing.turn(hand)


def _without_waiting(hand: Hand) -> None:
    """Copy what a loader has pinned without waiting for it. From pageable memory a copy waits in
    any case; back to the host it has to be waited for; and pinned memory of the script's own may
    be written anew before it has been read. All three are left as they are."""
    import torch
    from torch.utils.data._utils import pin_memory as home

    pinned: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    def make_pin(original: Callable[..., Any]) -> Callable[..., Any]:
        def pin_memory(data: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(data, *args, **kwargs)
            if isinstance(result, torch.Tensor):
                pinned[id(result)] = result
            return result

        return pin_memory

    def ours(tensor: Any) -> bool:
        base = getattr(tensor, "_base", None)
        return pinned.get(id(tensor)) is tensor or (
            base is not None and pinned.get(id(base)) is base
        )

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def copy(self: Any, *args: Any, **kwargs: Any) -> Any:
            said = "non_blocking" in kwargs or any(type(one) is bool for one in args)
            if not pinned or said or not ours(self):
                return original(self, *args, **kwargs)
            result = original(self, *args, non_blocking=True, **kwargs)
            if result.device != self.device:
                hand.took(KNOB)
            return result

        return copy

    hand.waits([KNOB], "no batch that a loader has pinned was copied to the device")
    hand.replace(home, "pin_memory", make_pin)
    hand.replace(torch.Tensor, "to", make)
    hand.replace(torch.Tensor, "cuda", make)
