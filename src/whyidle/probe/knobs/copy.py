"""Copies to the device that the host need not wait for.

Only what a loader has pinned is copied without waiting: from pageable memory a copy waits in any
case, back to the host it has to be waited for, and pinned memory of the script's own may be written
anew before it has been read. All three are left as they are.

The batch on the host may be written anew as well, as by a script that masks labels where they were.
A host that did not wait would have it done before the device has read them. So copies of the first
batches are waited for, and until the next batch is asked for it is seen whether they changed (by
the tensor's version, and in some batches by its bytes: memory can be written past PyTorch).
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from . import KnobSession
from ._device_prefetch import EVERY, PROVE, same_bytes

KNOB = "copy.non_blocking"
Function = Callable[..., Any]
PASSING = ("accelerate", "transformers")
"""frameworks that pass ``non_blocking=False`` to every copy where the script says nothing of it"""
WATCHED = 64
"""so many of the copied tensors are watched at most"""


class CopiedTensor(NamedTuple):
    """A tensor of the host of which a copy was made, and whether that was waited for; ``before``
    are its bytes, where they are to be compared."""

    source: Callable[[], Any]
    version: int
    before: Any
    waited: bool


class PendingCopies:
    """What one process need not wait for."""

    def __init__(self, hand: KnobSession) -> None:
        self.hand = hand
        self.pinned: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.batches: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """how many each iterator has given"""
        self.number = 0
        """of the batch that was given last"""
        self.copied: deque[CopiedTensor] = deque(maxlen=WATCHED)
        self.said = self.off = False

    def explain_waits(self) -> str:
        """What it still waits for."""
        if self.said:
            return "the script says of each copy itself whether it is waited for (non_blocking=...)"
        if self.copied:
            return f"the copies of the first {PROVE} batches are waited for, and no more came"
        return "no batch that a loader has pinned was copied to the device"

    def pin_memory(self, original: Function) -> Function:
        """The loader pins a part of a batch. What was pinned before is the script's own."""
        import torch

        def pin_memory(data: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(data, *args, **kwargs)
            if isinstance(result, torch.Tensor) and result is not data:
                self.pinned[id(result)] = result
            return result

        return pin_memory

    def wrap_next_batch(self, original: Function) -> Function:
        """The script takes the next batch."""

        def following(iterator: Any) -> Any:
            if not self.off and not self.hand.is_child:
                self.hand.run_contained([KNOB], self._check_copies, iterator)
            return original(iterator)

        return following

    def wrap_copy(self, original: Function) -> Function:
        """The script moves a tensor."""

        def copy(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            found = None
            if self.pinned:
                found = self.hand.run_contained([KNOB], self._watch_copy, tensor, args, kwargs)
            if found is None:
                return original(tensor, *args, **kwargs)
            free = {} if found.waited else {"non_blocking": True}
            result = original(tensor, *args, **kwargs | free)
            if result.device != tensor.device:
                self.copied.append(found)
                if not found.waited:
                    self.hand.record_applied(KNOB)
            return result

        return copy

    def _check_copies(self, iterator: Any) -> None:
        """The script asks for a batch: is what it copied of those before as it was?"""
        if changed := [each for each in self.copied if _was_changed(each)]:
            self.off = True
            if not all(each.waited for each in changed):
                self.hand.applied.pop(KNOB, None)  # it may have been read too late
            self.hand.decline_knobs([KNOB], "the script changes a batch after it has copied it")
        alive = [each._replace(before=None) for each in self.copied if each.source() is not None]
        self.copied = deque(alive, maxlen=WATCHED)
        self.number = self.batches[iterator] = self.batches.get(iterator, 0) + 1

    def _pinned_source(self, tensor: Any) -> Any:
        """What a loader has pinned, of which this is all or a part; None where it is neither."""
        for one in (tensor, getattr(tensor, "_base", None)):
            if one is not None and self.pinned.get(id(one)) is one:
                return one
        return None

    def _watch_copy(self, tensor: Any, args: Any, kwargs: Any) -> CopiedTensor | None:
        """A copy that is about to be made; None for one that is left alone."""
        source = self._pinned_source(tensor)
        if source is None or self.off or self.hand.is_child or source.is_inference():
            return None  # changes of the latter cannot be seen
        said = "non_blocking" in kwargs or any(type(one) is bool for one in args)
        if said and (kwargs.get("non_blocking") is not False or not _passed_on()):
            self.said = True
            return None
        look = self.number <= PROVE or self.number % EVERY == 0
        before = source.clone() if look else None
        return CopiedTensor(weakref.ref(source), source._version, before, look)


def apply(hand: KnobSession, edits: dict[str, Any]) -> None:
    """Have copies to the device waited for less."""
    if not edits.get(KNOB):
        return
    import torch
    from torch.utils.data import dataloader
    from torch.utils.data._utils import pin_memory as home

    copies = PendingCopies(hand)
    hand.wait_for([KNOB], copies.explain_waits)
    hand.replace_function(home, "pin_memory", copies.pin_memory)
    hand.replace_function(dataloader._BaseDataLoaderIter, "__next__", copies.wrap_next_batch)
    hand.replace_function(torch.Tensor, "to", copies.wrap_copy)
    hand.replace_function(torch.Tensor, "cuda", copies.wrap_copy)


def _was_changed(copied: CopiedTensor) -> bool:
    source = copied.source()
    if source is None:
        return False
    if source._version != copied.version:
        return True
    return copied.before is not None and not same_bytes(copied.before, source)


def _passed_on() -> bool:
    """Whether it is a framework that says so, past this folder's frames."""
    frame, ours = sys._getframe(1), (__package__ or "").rpartition(".")[0] + "."
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(ours):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in PASSING
