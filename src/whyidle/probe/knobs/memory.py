"""The allocator's cache, which need not be emptied in every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import Hand


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Let ``torch.cuda.empty_cache()`` through only every so many calls; 0: never."""
    import torch

    every, calls = int(edits["memory.empty_cache_every"]), 0

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def empty_cache(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if not every or (calls - 1) % every:
                hand.took(*edits)
                return None
            return original(*args, **kwargs)

        return empty_cache

    hand.waits(edits, "torch.cuda.empty_cache() was called once at most")
    hand.replace(
        torch.cuda, "empty_cache", make
    )  # its home, torch.cuda.memory, PyTorch itself uses
