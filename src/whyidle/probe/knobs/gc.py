"""Sets when Python's garbage collector runs."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from . import KnobSession

WARM = 5
"""warm-up steps, after which living objects are expected to stay"""
WHOLE = 20
"""one collection in so many covers all objects that are not frozen, so that every cycle is freed"""


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Freeze objects or thin out collections.

    ``gc.freeze`` hides objects that live after warm-up from the collector; together with
    ``gc.collect_interval_steps`` the collector then runs only at this interval, otherwise as before
    and when the script calls it. The interval alone skips calls of ``gc.collect``.
    """
    every = int(edits.get("gc.collect_interval_steps") or 0)
    if edits.get("gc.freeze"):
        # without steps nothing would collect any more
        asked: Callable[[], Any] = gc.enable if every else bool
        session.after_steps(
            lambda step: _collect_between_steps(session, edits, step, every), ended=asked
        )
    elif every:
        _thin_collections(session, edits, every)


def _collect_between_steps(
    session: KnobSession, edits: dict[str, Any], step: int, every: int
) -> None:
    if step == WARM:
        if every and not gc.isenabled():
            session.decline_knobs(edits, "the script has turned the collector off")
            return
        gc.collect()
        gc.freeze()
        session.undo.append(gc.unfreeze)
        if every:
            gc.disable()
            session.undo.append(gc.enable)
        session.record_applied(*edits)
    elif every and step > WARM and step % every == 0 and session.applied.get("gc.freeze"):
        gc.collect(2 if step % (every * WHOLE) == 0 else 1)


def _thin_collections(session: KnobSession, edits: dict[str, Any], every: int) -> None:
    last, now = -every, 0

    def count(step: int) -> None:
        nonlocal now
        now = step

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def collect(*args: Any, **kwargs: Any) -> Any:
            nonlocal last
            if now and now - last < every:  # calls before the first step are not repeated
                session.record_applied(*edits)
                return 0
            last = now
            return original(*args, **kwargs)

        return collect

    session.wait_for(edits, f"gc.collect() was not called twice within {every} steps")
    session.after_steps(count)
    session.replace_function(gc, "collect", make)
