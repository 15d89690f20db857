"""Copies to the device that the host need not wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import Hand


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Copy what lies in pinned memory without waiting for it. From pageable memory a copy waits in
    any case, and back to the host it has to be waited for: both are left as they are."""
    import torch

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def copy(self: Any, *args: Any, **kwargs: Any) -> Any:
            if self.device.type == "cpu" and "non_blocking" not in kwargs and self.is_pinned():
                hand.took(*edits)
                kwargs["non_blocking"] = True
            return original(self, *args, **kwargs)

        return copy

    hand.replace(torch.Tensor, "to", make)
    hand.replace(torch.Tensor, "cuda", make)
