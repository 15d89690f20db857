"""Activations that are kept instead of computed again in the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import Hand

OWN = ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop")
"""arguments of ``torch.utils.checkpoint.checkpoint`` that are not the function's"""


def keep_activations(hand: Hand, knob: str) -> None:
    """Call what is checkpointed directly: the same numbers, and the memory of its activations. Left
    alone where the script chooses itself what is kept (``context_fn``), and where the older form is
    given nothing that needs a gradient: then it gives none to the parameters either."""
    from torch.utils import checkpoint as home

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def checkpoint(function: Any, *args: Any, **kwargs: Any) -> Any:
            older = kwargs.get("use_reentrant") is not False
            needed = any(getattr(one, "requires_grad", False) for one in args)
            if "context_fn" in kwargs or (older and not needed):
                return original(function, *args, **kwargs)
            hand.took(knob)
            return function(*args, **{k: v for k, v in kwargs.items() if k not in OWN})

        return checkpoint

    hand.replace(home, "checkpoint", make)
