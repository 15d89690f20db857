"""When Python's collector runs: between steps, every so many, over what is young."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from . import KnobSession

WARM = 5
"""steps after which what lives is taken to live on"""
WHOLE = 20
"""every so many collections one is of all that is not frozen, so that no cycle is kept for good"""


def apply(hand: KnobSession, edits: dict[str, Any]) -> None:
    """``gc.freeze`` takes what lives after warm-up out of its sight; with
    ``gc.collect_interval_steps`` it then runs after so many steps only, without it as often as it
    did and as the script asks. The interval alone thins out calls of ``gc.collect``."""
    every = int(edits.get("gc.collect_interval_steps") or 0)
    if edits.get("gc.freeze"):
        hand.after_steps(lambda step: _collect_between_steps(hand, edits, step, every))
    elif every:
        _thin_collections(hand, edits, every)


def _collect_between_steps(hand: KnobSession, edits: dict[str, Any], step: int, every: int) -> None:
    if step == WARM:
        if every and not gc.isenabled():
            hand.decline_knobs(edits, "the script has turned the collector off")
            return
        gc.collect()
        gc.freeze()
        hand.undo.append(gc.unfreeze)
        if every:
            gc.disable()
            hand.undo.append(gc.enable)
        hand.record_applied(*edits)
    elif every and step > WARM and step % every == 0 and hand.applied.get("gc.freeze"):
        gc.collect(2 if step % (every * WHOLE) == 0 else 1)


def _thin_collections(hand: KnobSession, edits: dict[str, Any], every: int) -> None:
    last, now = -every, 0

    def count(step: int) -> None:
        nonlocal now
        now = step

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def collect(*args: Any, **kwargs: Any) -> Any:
            nonlocal last
            if now and now - last < every:  # before the first step nothing recurs
                hand.record_applied(*edits)
                return 0
            last = now
            return original(*args, **kwargs)

        return collect

    hand.wait_for(edits, f"gc.collect() was not called twice within {every} steps")
    hand.after_steps(count)
    hand.replace_function(gc, "collect", make)
