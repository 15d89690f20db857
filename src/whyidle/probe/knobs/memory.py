"""The allocator's cache, which need not be emptied in every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import accelerator
from . import Hand

OTHERS = ("xpu", "mps")
"""modules like ``torch.cuda`` that PyTorch brings; one that a package brings is asked for by name
once the job steps"""


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Let ``torch.cuda.empty_cache()`` and its like through only every so many calls; 0: never."""
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

    hand.waits(edits, "the cache was emptied once at most")
    # a script may import them by name; their home, torch.cuda.memory, PyTorch itself uses
    known = ["cuda", "accelerator"]
    for name in known:
        if hasattr(getattr(torch, name, None), "empty_cache"):
            hand.replace(getattr(torch, name), "empty_cache", make)

    def stepped(step: int) -> None:
        if step == 1:
            for owner in _others(torch):
                hand.replace(owner, "empty_cache", make)

    hand.after_steps(stepped)


def _others(torch: Any) -> list[Any]:
    """The modules of other accelerators that are there."""
    package = torch._C._get_privateuse1_backend_name()
    found = [accelerator.module(torch, kind) for kind in (*OTHERS, package)]
    return [one for one in found if hasattr(one, "empty_cache")]
