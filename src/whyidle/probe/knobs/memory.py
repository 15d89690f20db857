"""The allocator's cache, which need not be emptied in every step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..frameworks.torch import accelerator
from . import KnobSession, Wrapper

OTHERS = ("xpu", "mps")
"""modules like ``torch.cuda`` that PyTorch brings; one that a package brings is asked for by name
once the job steps"""


def apply(hand: KnobSession, edits: dict[str, Any]) -> None:
    """Let ``torch.cuda.empty_cache()`` and its like through only every so many calls; 0: never."""
    import torch

    every, calls = int(edits["memory.empty_cache_every"]), 0

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def empty_cache(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if not every or (calls - 1) % every:
                hand.record_applied(*edits)
                return None
            return original(*args, **kwargs)

        return empty_cache

    hand.wait_for(edits, "the cache was emptied once at most")
    # a script may import them by name; their home, torch.cuda.memory, PyTorch itself uses
    _replace_in_modules(hand, (torch.cuda, getattr(torch, "accelerator", None)), make)

    def stepped(step: int) -> None:
        if step == 1:
            kinds = (*OTHERS, torch._C._get_privateuse1_backend_name())
            _replace_in_modules(
                hand, [accelerator.device_module(torch, kind) for kind in kinds], make
            )

    hand.after_steps(stepped)


def _replace_in_modules(hand: KnobSession, modules: Iterable[Any], make: Wrapper) -> None:
    """In those modules that are there."""
    for module in modules:
        if hasattr(module, "empty_cache"):
            hand.replace_function(module, "empty_cache", make)
