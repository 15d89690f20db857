"""Copies to the device without waiting on the host.

Only tensors that a loader has pinned are copied with ``non_blocking=True``. Three kinds of copies
stay as they are: those from pageable memory wait in any case, those to the host must be waited for,
and pinned memory of the script's own may be overwritten before it has been read.

The script may overwrite the batch on the host as well, for example to mask labels in place. Without
waiting it could do so before the device has read them. So the copies of the first batches are
waited for, and at the next request the batch is checked for changes (by the tensor's version, and
in some batches by its bytes, as memory can be written without PyTorch's knowledge).
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from . import KnobSession

KNOB = "copy.non_blocking"
Function = Callable[..., Any]
PASSING = ("accelerate", "transformers")
"""frameworks that pass ``non_blocking=False`` to every copy by default"""
WATCHED = 64
"""number of copied tensors that are watched at most"""
PROVE, EVERY = 4, 256
"""batches at the start, and then one batch in so many, that are compared byte by byte"""


class CopiedTensor(NamedTuple):
    """A host tensor that was copied, and whether the copy was waited for; ``before`` holds its
    bytes where they are to be compared."""

    source: Callable[[], Any]
    version: int
    before: Any
    waited: bool


class PendingCopies:
    """The copies of one process that need no waiting."""

    def __init__(self, session: KnobSession) -> None:
        self.session = session
        self.pinned: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.batches: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """number of batches from each iterator"""
        self.number = 0
        """number of the last batch"""
        self.copied: deque[CopiedTensor] = deque(maxlen=WATCHED)
        self.said = self.off = False

    def explain_waits(self) -> str:
        """Why no copy was changed so far."""
        if self.said:
            return "the script sets non_blocking=... for each copy itself"
        if self.copied:
            return f"only {PROVE} batches ran, whose copies are always waited for"
        return "no batch that a loader has pinned was copied to the device"

    def pin_memory(self, original: Function) -> Function:
        """Wrap the loader's pinning. What was pinned before belongs to the script."""
        import torch

        def pin_memory(data: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(data, *args, **kwargs)
            if isinstance(result, torch.Tensor) and result is not data:
                self.pinned[id(result)] = result
            return result

        return pin_memory

    def wrap_next_batch(self, original: Function) -> Function:
        """Wrap the request of the next batch."""

        def next_batch(iterator: Any) -> Any:
            if not self.off and not self.session.is_child:
                self.session.run_contained([KNOB], self._check_copies, iterator)
            return original(iterator)

        return next_batch

    def wrap_copy(self, original: Function) -> Function:
        """Wrap the script's copies."""

        def copy(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            copied = None
            if self.pinned:
                copied = self.session.run_contained([KNOB], self._watch_copy, tensor, args, kwargs)
            if copied is None:
                return original(tensor, *args, **kwargs)
            free = {} if copied.waited else {"non_blocking": True}
            result = original(tensor, *args, **kwargs | free)
            if result.device != tensor.device:
                self.copied.append(copied)
                if not copied.waited:
                    self.session.record_applied(KNOB)
            return result

        return copy

    def _check_copies(self, iterator: Any) -> None:
        """Check whether the script has changed earlier batches since it copied them."""
        if changed := [copied for copied in self.copied if _was_changed(copied)]:
            self.off = True
            if not all(copied.waited for copied in changed):
                self.session.applied.pop(KNOB, None)  # the device may have read changed values
            self.session.decline_knobs([KNOB], "the script changes a batch after it has copied it")
        alive = [
            copied._replace(before=None) for copied in self.copied if copied.source() is not None
        ]
        self.copied = deque(alive, maxlen=WATCHED)
        self.number = self.batches[iterator] = self.batches.get(iterator, 0) + 1

    def _pinned_source(self, tensor: Any) -> Any:
        """The loader's pinned tensor that this is, or is a view of; None if neither."""
        for candidate in (tensor, getattr(tensor, "_base", None)):
            if candidate is not None and self.pinned.get(id(candidate)) is candidate:
                return candidate
        return None

    def _watch_copy(self, tensor: Any, args: Any, kwargs: Any) -> CopiedTensor | None:
        """Note a copy that is about to be made; None for one that stays as it is."""
        source = self._pinned_source(tensor)
        if source is None or self.off or self.session.is_child or source.is_inference():
            return None  # changes of inference tensors cannot be detected
        explicit = "non_blocking" in kwargs or any(type(argument) is bool for argument in args)
        if explicit and (kwargs.get("non_blocking") is not False or not _passed_on()):
            self.said = True
            return None
        look = self.number <= PROVE or self.number % EVERY == 0
        before = source.clone() if look else None
        return CopiedTensor(weakref.ref(source), source._version, before, look)


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Make copies of pinned batches to the device non-blocking."""
    if not edits.get(KNOB):
        return
    import torch
    from torch.utils.data import dataloader
    from torch.utils.data._utils import pin_memory as home

    copies = PendingCopies(session)
    session.wait_for([KNOB], copies.explain_waits)
    session.replace_function(home, "pin_memory", copies.pin_memory)
    session.replace_function(dataloader._BaseDataLoaderIter, "__next__", copies.wrap_next_batch)
    session.replace_function(torch.Tensor, "to", copies.wrap_copy)
    session.replace_function(torch.Tensor, "cuda", copies.wrap_copy)


def _was_changed(copied: CopiedTensor) -> bool:
    source = copied.source()
    if source is None:
        return False
    if source._version != copied.version:
        return True
    return copied.before is not None and not _same_bytes(copied.before, source)


def _same_bytes(first: Any, second: Any) -> bool:
    """Whether two tensors of the same type and shape are bitwise equal."""
    import torch

    flat = [tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (first, second)]
    return torch.equal(*flat)


def _passed_on() -> bool:
    """Whether a framework, not the script, passed ``non_blocking=False``."""
    frame, ours = sys._getframe(1), (__package__ or "").rpartition(".")[0] + "."
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(ours):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in PASSING
