"""Reads the frames of another thread while that thread cannot run.

CPython 3.11 creates a frame object when it is requested. Creating it may collect garbage, and a
finaliser or a tensor's memory may then release the interpreter lock: the other thread continues,
the frame is gone, and its object points to freed memory, which crashes the process sooner or later
(python/cpython issue 99110; profilers that do this crash on 3.11: getsentry/sentry-python issues
2386 and 6119). Later versions collect between instructions only, earlier ones have an object for
each frame from the start. So on 3.11 garbage collection is off for the microseconds that this
takes; on all versions it is done by iterators written in C, between whose steps the interpreter
lock is not released.

The frames of all threads include the caller's own. A caller that stores them in a variable keeps
itself alive, and with it the variables of every thread, until garbage is collected.
"""

from __future__ import annotations

import gc
import inspect
import operator
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import accumulate, chain, compress, repeat, takewhile
from types import FrameType
from typing import Any

DEEPEST = 96
MADE_WHEN_ASKED = sys.version_info[:2] == (3, 11)
COLLECTS_AFTERWARDS = sys.version_info >= (3, 11, 9)
"""``sys._current_frames`` disables collection itself; before, two threads that ask and collect
could deadlock (python/cpython issue 106883, its pull 117332)"""
_call: Any = getattr(operator, "call", None)
"""available from 3.11 on"""


def frames_of(thread: int) -> list[FrameType]:
    """Return the frames of a thread, innermost first, at most ``DEEPEST``; none if it has ended."""
    ask = sys._current_frames
    return enclosing_frames((ask() if COLLECTS_AFTERWARDS else run_without_gc(ask)).get(thread))


def enclosing_frames(frame: FrameType | None) -> list[FrameType]:
    """Return a frame and its callers, at most ``DEEPEST``."""
    frames: list[FrameType] = []
    if frame is not None:
        steps: Any = chain((frame,), repeat("f_back", DEEPEST - 1))
        run_without_gc(
            partial(frames.extend, takewhile(operator.truth, accumulate(steps, getattr)))
        )
    return frames


def read_variables(frame: FrameType) -> dict[str, Any]:
    """Return the variables of a frame. Until Python 3.13 a function's frame keeps the mapping made
    for this, and its tensors: it is emptied, unless the script has it too, by ``locals()``."""
    made = frame.f_locals
    values = dict(made)
    ours = type(made) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if ours and sys.getrefcount(made) <= 3:  # the frame's, this function's, and the call's
        made.clear()
    return values


def run_without_gc(work: Callable[[], Any]) -> Any:
    """Call ``work``, a function written in C that creates frame objects, with garbage collection
    off. Afterwards collection is on again if it was before: all this is one call, so no other
    thread can change that in between."""
    if not MADE_WHEN_ASKED:
        return work()
    was: list[bool] = []
    result: list[Any] = []
    nothing: deque[Any] = deque(maxlen=0)
    parts = (
        partial(was.extend, map(_call, (gc.isenabled,))),
        gc.disable,
        partial(result.extend, map(_call, (work,))),
        partial(nothing.extend, map(_call, compress((gc.enable,), was))),
    )
    try:
        nothing.extend(map(_call, parts))
    except BaseException:
        if was == [True]:
            gc.enable()
        raise
    return result.pop()  # the result may include this very frame: keep no reference to it
