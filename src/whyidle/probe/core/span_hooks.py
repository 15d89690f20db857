"""Records rare calls as spans, with the stack of the caller."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from .events import Events
from .recorder import clock_ns
from .thread_stacks import enclosing_frames
from .wrapped_functions import Wrap


def record_calls(events: Events, role: str, label: str, kind: int, where: str = "") -> Wrap:
    """Record every call as a span with the caller's stack. ``where`` names the hook to remove after
    a fault, if not ``label``."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            begin = clock_ns()
            events.run_contained(where or label, mark_place, events, begin)
            try:
                return original(*args, **kwargs)
            finally:
                events.run_contained(where or label, events.add_span, role, label, kind, begin)

        return wrapper

    return wrap


def mark_place(events: Events, begin: int) -> None:
    """Record the stack of this thread as a sample, so that a rare span has its exact place."""
    if events.sampler is not None and threading.get_ident() == events.sampler.watched:
        stack = events.sampler.stacks.stack_number(enclosing_frames(sys._getframe(1)))
        events.recorder.add_sample((begin, -1, threading.get_ident(), stack, 0))
