"""Pinned memory of the host: an ordinary buffer whose address is remembered while it lives."""

from __future__ import annotations

import bisect
import ctypes
import threading
import weakref
from typing import Any

import torch

_ends: dict[int, int] = {}
_starts: list[int] = []
_lock = threading.Lock()


def _forget(start: int) -> None:
    with _lock:
        _ends.pop(start, None)
        at = bisect.bisect_left(_starts, start)
        if at < len(_starts) and _starts[at] == start:
            del _starts[at]


def empty_pinned(size: int) -> torch.Tensor:
    """Bytes, pinned for as long as any tensor looks at them."""
    kind = type("Pinned", (ctypes.c_byte * max(size, 1),), {})
    buffer = kind()
    start = ctypes.addressof(buffer)
    with _lock:
        bisect.insort(_starts, start)
        _ends[start] = start + size
    weakref.finalize(buffer, _forget, start)
    return torch.frombuffer(buffer, dtype=torch.uint8, count=size) if size else torch.empty(0)


def is_pinned(tensor: torch.Tensor) -> bool:
    """Whether a tensor of the host lies in pinned memory."""
    if not _starts:
        return False
    address = tensor.data_ptr()
    with _lock:
        at = bisect.bisect_right(_starts, address) - 1
        return at >= 0 and address < _ends[_starts[at]]


def pin_memory(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in pinned memory, or the tensor itself if it is there."""
    if is_pinned(tensor) or not tensor.numel():
        return tensor
    source = tensor.detach()
    strides = torch.empty_like(source, device="meta").stride()  # dense, in the same order
    raw = empty_pinned(source.numel() * source.element_size())
    return raw.view(source.dtype).as_strided(source.size(), strides).copy_(source)


def install() -> None:
    """Let ``Tensor.pin_memory`` and ``is_pinned`` mean this."""
    plain_pin, plain_is = torch.Tensor.pin_memory, torch.Tensor.is_pinned

    def pins(self: torch.Tensor, device: Any = None) -> torch.Tensor:
        return pin_memory(self) if self.device.type == "cpu" else plain_pin(self)

    def pinned(self: torch.Tensor, device: Any = None) -> bool:
        return is_pinned(self) if self.device.type == "cpu" else plain_is(self)

    torch.Tensor.pin_memory, torch.Tensor.is_pinned = pins, pinned  # type: ignore[assignment,method-assign]
