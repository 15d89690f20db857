"""When Python's collector runs: between steps, every so many, over what is young."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from . import Hand

WARM = 5
"""steps after which what lives is taken to live on"""


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """``gc.freeze`` takes what lives after warm-up out of its sight and has it run after every
    ``gc.collect_interval_steps`` only; without it, calls of ``gc.collect`` are thinned out."""
    every = int(edits.get("gc.collect_interval_steps") or 50)
    if edits.get("gc.freeze"):
        hand.after_steps(lambda step: _between(hand, edits, step, every))
        hand.undo.append(_restore(gc.isenabled()))
    else:
        _thinned(hand, edits, every)


def _between(hand: Hand, edits: dict[str, Any], step: int, every: int) -> None:
    if step == WARM:
        gc.collect()
        gc.freeze()
        gc.disable()
        hand.took(*edits)
    elif step > WARM and step % every == 0:
        gc.collect(1)


def _restore(enabled: bool) -> Callable[[], None]:
    def undo() -> None:
        gc.unfreeze()
        if enabled:
            gc.enable()

    return undo


def _thinned(hand: Hand, edits: dict[str, Any], every: int) -> None:
    last, now = -every, 0

    def count(step: int) -> None:
        nonlocal now
        now = step

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def collect(*args: Any, **kwargs: Any) -> Any:
            nonlocal last
            if now - last < every:
                hand.took(*edits)
                return 0
            last = now
            return original(*args, **kwargs)

        return collect

    hand.after_steps(count)
    hand.replace(gc, "collect", make)
