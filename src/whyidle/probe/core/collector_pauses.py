"""Pauses of Python's garbage collector: automatic, and where the script calls it."""

from __future__ import annotations

import gc
import sys
from typing import Any

from .. import wire
from . import fault_containment
from .events import Events
from .recorder import OVERHEAD, PYTHON, clock_ns
from .span_hooks import record_calls


def install_collector_hook(events: Events) -> None:
    """Record every collection, with its generation."""
    named = [f"Python GC, generation {number}" for number in range(3)]
    calls = record_calls(events, wire.GARBAGE_COLLECTION_CALL, "gc.collect", PYTHON)
    events.patch_function("gc.collect", gc, "collect", calls)
    begun = 0

    def on_collection(phase: str, info: dict[str, int]) -> None:
        nonlocal begun
        try:
            if phase == "start":
                begun = clock_ns()
            elif begun:
                begin, begun = begun, 0
                label = named[info["generation"]]
                events.add_span(wire.GARBAGE_COLLECTION, label, OVERHEAD, begin)
        except BaseException as error:  # Python drops exceptions raised here: keep a Ctrl-C
            if not fault_containment.repeat_signal(error, on_collection.__code__):
                events.remove_faulty("gc", error)

    dropped = sys.unraisablehook

    def on_unraisable(lost: Any) -> None:
        """Repeat a signal whose exception came before the ``try`` in ``on_collection``."""
        repeat, code = fault_containment.repeat_signal, on_unraisable.__code__
        if lost.object is not on_collection or not repeat(lost.exc_value, code):
            dropped(lost)

    def undo() -> None:
        gc.callbacks.remove(on_collection)
        if sys.unraisablehook is on_unraisable:
            sys.unraisablehook = dropped

    gc.callbacks.append(on_collection)
    sys.unraisablehook = on_unraisable
    events.undo["gc"] = undo
