"""Pauses of Python's garbage collector, by itself and where the script calls it."""

from __future__ import annotations

import gc
import sys
from typing import Any

from .. import wire
from . import containment
from .events import Events
from .recorder import OVERHEAD, PYTHON, clock_ns
from .span_hooks import record_calls


def install_collector_hook(events: Events) -> None:
    """Have the collector call us. It says how old the youngest objects are that it leaves out."""
    named = [f"Python GC, generation {number}" for number in range(3)]
    calls = record_calls(events, wire.GARBAGE_COLLECTION_CALL, "gc.collect", PYTHON)
    events.patch_function("gc.collect", gc, "collect", calls)
    begun = 0

    def collected(phase: str, info: dict[str, int]) -> None:
        nonlocal begun
        try:
            if phase == "start":
                begun = clock_ns()
            elif begun:
                begin, begun = begun, 0
                label = named[info["generation"]]
                events.add_span(wire.GARBAGE_COLLECTION, label, OVERHEAD, begin)
        except BaseException as error:  # Python drops what is raised in here: nothing may be lost
            if not containment.repeat_signal(error):
                events.remove_faulty("gc", error)

    dropped = sys.unraisablehook

    def unraisable(lost: Any) -> None:
        """A signal's exception at the first instruction of ``collected`` is beyond its ``try``."""
        if lost.object is not collected or not containment.repeat_signal(lost.exc_value):
            dropped(lost)

    def undo() -> None:
        gc.callbacks.remove(collected)
        if sys.unraisablehook is unraisable:
            sys.unraisablehook = dropped

    gc.callbacks.append(collected)
    sys.unraisablehook = unraisable
    events.undo["gc"] = undo
