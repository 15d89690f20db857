"""Empties the allocator's cache less often."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..frameworks.torch import accelerator
from . import KnobSession, Wrapper

OTHERS = ("xpu", "mps")
"""device modules of PyTorch besides ``torch.cuda``; one of another package is found by name at the
first step"""


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Run only one in so many calls of ``torch.cuda.empty_cache()`` and its like; 0: none."""
    import torch

    every, calls = int(edits["memory.empty_cache_every"]), 0

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def empty_cache(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if not every or (calls - 1) % every:
                session.record_applied(*edits)
                return None
            return original(*args, **kwargs)

        return empty_cache

    session.wait_for(edits, "the cache was emptied at most once")
    # not in torch.cuda.memory, which PyTorch itself uses
    _replace_in_modules(session, (torch.cuda, getattr(torch, "accelerator", None)), make)

    def replace_others(step: int) -> None:
        if step == 1:
            kinds = (*OTHERS, torch._C._get_privateuse1_backend_name())
            _replace_in_modules(
                session, [accelerator.device_module(torch, kind) for kind in kinds], make
            )

    session.after_steps(replace_others)


def _replace_in_modules(session: KnobSession, modules: Iterable[Any], make: Wrapper) -> None:
    """Replace ``empty_cache`` in those modules that exist."""
    for module in modules:
        if hasattr(module, "empty_cache"):
            session.replace_function(module, "empty_cache", make)
