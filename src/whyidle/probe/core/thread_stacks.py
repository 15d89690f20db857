"""The frames of another thread, taken while that thread cannot move.

CPython 3.11 makes a frame's object when somebody asks for it. Making one may collect garbage, and
what is collected may let go of the interpreter's lock, by a finaliser or a tensor's memory: then
the thread goes on, the frame is gone, and its object is of freed memory, which ends the process
sooner or later (python/cpython issue 99110; profilers that ask like this die of it on 3.11:
getsentry/sentry-python issues 2386 and 6119). Later versions collect between instructions only,
earlier ones have an object for each frame from the start. So on 3.11 nothing is collected for the
microseconds that it takes; and everywhere it is done by iterators written in C, between whose steps
the interpreter gives nothing away.

Among the frames of all threads is that of whoever asks. One that keeps them in a variable keeps
itself, and with them what every thread had in its variables, until garbage is collected.
"""

from __future__ import annotations

import gc
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
"""asking for the innermost frames of all threads does so by itself; before, two threads that ask
and collect could wait for each other for ever (python/cpython issue 106883, its pull 117332)"""
_call: Any = getattr(operator, "call", None)
"""from 3.11 on there is one"""


def frames_of(thread: int) -> list[FrameType]:
    """Frames of a thread, the innermost first, ``DEEPEST`` at most; none where it has ended."""
    ask = sys._current_frames
    return enclosing_frames((ask() if COLLECTS_AFTERWARDS else at_once(ask)).get(thread))


def enclosing_frames(frame: FrameType | None) -> list[FrameType]:
    """A frame and those that it was called from, ``DEEPEST`` at most."""
    found: list[FrameType] = []
    if frame is not None:
        steps: Any = chain((frame,), repeat("f_back", DEEPEST - 1))
        at_once(partial(found.extend, takewhile(operator.truth, accumulate(steps, getattr))))
    return found


def at_once(work: Callable[[], Any]) -> Any:
    """What ``work`` returns, which makes frames' objects and is written in C. Garbage is collected
    afterwards as it was before, where it was: all this is one call, so nobody can change that in
    between."""
    if not MADE_WHEN_ASKED:
        return work()
    was: list[bool] = []
    found: list[Any] = []
    nothing: deque[Any] = deque(maxlen=0)
    parts = (
        partial(was.extend, map(_call, (gc.isenabled,))),
        gc.disable,
        partial(found.extend, map(_call, (work,))),
        partial(nothing.extend, map(_call, compress((gc.enable,), was))),
    )
    try:
        nothing.extend(map(_call, parts))
    except BaseException:
        if was == [True]:
            gc.enable()
        raise
    return found.pop()  # what is found may be frames, this one among them: nothing here holds it
