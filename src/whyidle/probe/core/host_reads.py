"""Records where the thread that trains waits for the value of an array."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from .. import wire
from .events import Events
from .recorder import RUNTIME, clock_ns, name_tag
from .span_hooks import mark_place

HOOK = "reads"
WAITED_NS = 20_000
"""shortest read that counts as waiting"""


class HostReads:
    """The reads of one process. Those inside others are not recorded."""

    def __init__(self, events: Events, note_wait: Callable[[int], None] | None = None) -> None:
        self.events, self.note_wait = events, note_wait
        self.inside = False
        self.waits = 0

    def watch(
        self,
        original: Callable[..., Any],
        label: str,
        waits_for: Callable[[Any], bool] | None = None,
    ) -> Callable[..., Any]:
        """Return a function that records the calls of ``original`` that had to wait. ``waits_for``
        tells of the first argument whether reading it waits for a device."""
        number = self.events.recorder.name_number(label, wire.SCALAR_READ)
        tag = name_tag(number, RUNTIME)

        @functools.wraps(original, assigned=("__doc__",))  # some are methods of C++ classes
        def read(*args: Any, **kwargs: Any) -> Any:
            if self.inside or threading.get_ident() != self.events.home:
                return original(*args, **kwargs)
            self.inside, begin = True, clock_ns()
            try:
                return original(*args, **kwargs)
            finally:
                self.inside = False
                end = clock_ns()
                if end - begin > WAITED_NS:
                    self.events.run_contained(HOOK, note, begin, end, *args[:1])

        def note(begin: int, end: int, *read_from: Any) -> None:
            if waits_for is None or waits_for(*read_from):
                self._record_wait(tag, begin, end)

        return read

    def _record_wait(self, tag: int, begin: int, end: int) -> None:
        self.events.add((tag, begin, end))
        self.waits += 1
        if not self.waits & (self.waits - 1):  # rarely: the place hardly changes
            mark_place(self.events, begin)
        if self.note_wait is not None:
            self.note_wait(end)
