"""Pauses of Python's garbage collector, as the collector itself tells of them."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

from .. import wire
from . import containment
from .recorder import OVERHEAD, now

if TYPE_CHECKING:
    from .events import Loop


def install(loop: Loop) -> None:
    """Have the collector call us. It says how old the youngest objects are that it leaves out."""
    named = [f"Python GC, generation {number}" for number in range(3)]

    def collected(phase: str, info: dict[str, int]) -> None:
        try:
            if phase == "start":
                loop.collecting = now()
            elif loop.collecting:
                begin, loop.collecting = loop.collecting, 0
                loop.span(wire.GARBAGE_COLLECTION, named[info["generation"]], OVERHEAD, begin)
        except BaseException as error:  # Python drops what is raised in here: nothing may be lost
            if not containment.again(error):
                loop.fault("gc", error)

    dropped = sys.unraisablehook

    def unraisable(lost: Any) -> None:
        """A signal's exception at the first instruction of ``collected`` is beyond its ``try``."""
        if lost.object is not collected or not containment.again(lost.exc_value):
            dropped(lost)

    def undo() -> None:
        gc.callbacks.remove(collected)
        if sys.unraisablehook is unraisable:
            sys.unraisablehook = dropped

    gc.callbacks.append(collected)
    sys.unraisablehook = unraisable
    loop.undo["gc"] = undo
