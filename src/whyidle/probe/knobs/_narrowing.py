"""Batches cross the bus in 32 bits where 64 hold no more, and are widened on the device.

What a loader pins is made narrower beside it, in the thread that pins, and compared: only where
every value comes back bit by bit is there a narrow twin. Where the script moves such a tensor to an
accelerator, with nothing else asked for, its twin is copied and widened there, so that the script
has what it would have had.

Left alone: what no thread pins ahead (narrowing it would hold up the loop), small tensors, kinds of
tensors of which one did not fit, and what the script has changed before it moves it (seen by the
tensor's version, and in some batches by its bytes: memory can be written past PyTorch).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from . import Hand
from ._prefetch import EVERY, PROVE, answer_moves, same_bytes, target

KNOB = "copy.narrow"
LEAST_BYTES = 1 << 20
"""smaller copies cost their call, not their bytes"""


class Twin(NamedTuple):
    """Of a tensor that the loader has pinned; ``version`` tells whether it has changed since."""

    source: Callable[[], Any]
    version: int
    narrow: Any


class Narrowing:
    """The twins of one process."""

    def __init__(self, hand: Hand, move: Callable[..., Any]) -> None:
        import torch

        self.hand, self.move = hand, move
        self.narrower = {torch.int64: torch.int32, torch.float64: torch.float32}
        self.twins: dict[int, Twin] = {}
        """by the tensor's id"""
        self.refused: set[Any] = set()
        """kinds of tensors of which one did not fit"""
        self.moves = 0
        self.off = False

    def pinned(self, one: Any) -> None:
        """The loader has pinned this."""
        narrower, kind = self.narrower.get(one.dtype), (one.dtype, one.shape[1:])
        if narrower is None or kind in self.refused or one.nbytes < LEAST_BYTES:
            return
        if one.requires_grad or not one.is_contiguous():
            return
        narrow = one.type(narrower)
        if not same_bytes(narrow.type(one.dtype), one):
            self.refused.add(kind)
            self.hand.decline([KNOB], f"values of {one.dtype} do not fit into {narrower}")
            return
        number = id(one)
        gone = weakref.ref(one, lambda _: self.twins.pop(number, None))
        self.twins[number] = Twin(gone, one._version, narrow.pin_memory())

    def asked(self, one: Any, args: Any, kwargs: Any) -> Any:
        """What the script moves, by way of its twin; None where that is not the same."""
        twin, told = self.twins[id(one)], target(args, kwargs)
        if told is None or twin.source() is not one or twin.version != one._version:
            return None
        look = self.moves < PROVE or self.moves % EVERY == 0
        self.moves += 1
        if look and not same_bytes(twin.narrow.type(one.dtype), one):
            self.off = True
            self.hand.decline([KNOB], "the script changes batches, past PyTorch, before it moves")
            return None
        # nobody writes to the twin, so that the host need not wait for its copy
        moved = self.move(twin.narrow, told[0], non_blocking=True).type(one.dtype)
        self.hand.took(KNOB)
        return moved


def turn(hand: Hand) -> None:
    """Narrow what loaders pin."""
    import torch
    from torch.utils.data._utils import pin_memory as home

    narrowing = Narrowing(hand, torch.Tensor.to)

    def make_pin(original: Callable[..., Any]) -> Callable[..., Any]:
        def pin_memory(data: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(data, *args, **kwargs)
            if type(result) is torch.Tensor and not narrowing.off:
                hand.contained([KNOB], narrowing.pinned, result)
            return result

        return pin_memory

    hand.replace(home, "pin_memory", make_pin)
    known = narrowing.twins.__contains__
    answer_moves(hand, KNOB, lambda number: not narrowing.off and known(number), narrowing.asked)
    hand.undo.append(lambda: setattr(narrowing, "off", True))
