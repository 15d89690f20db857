"""Makes the batches of data libraries' iterators ahead, in a thread beside the step."""

from __future__ import annotations

import atexit
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from ..core import data_libraries, fault_containment
from . import NO_FORM, KnobSession

AHEAD = "iterator.ahead"
PATIENCE_S = 0.5
"""how often a thread whose batches nobody takes asks whether its iterator is still there"""
SAVES_POSITION = ("orbax", "grain.checkpoint")
"""modules that save how far an iterator is, which would be too far by the batches made ahead"""


class BatchesAhead:
    """The next batches of one iterator, or the error or end that stands in their place.

    The iterator is called by one thread, in the same order as before; it lives as long as the
    job's own loop holds it.
    """

    def __init__(self, iterator: Any, call: Callable[[Any], Any], most: int) -> None:
        self.iterator, self.call, self.most = weakref.ref(iterator), call, most
        self.ready: deque[tuple[Any, BaseException | None]] = deque()
        self.changed = threading.Condition()
        self.over = False
        fault_containment.start_thread(self._run)

    def take_batch(self) -> Any:
        """Return the next batch, or raise what the iterator has raised instead."""
        with self.changed:
            while not self.ready:
                self.changed.wait()
            batch, error = self.ready.popleft()
            self.changed.notify_all()
            self.over = self.over or error is not None  # who asks again begins anew
        if error is not None:
            raise error
        return batch

    def stop(self) -> None:
        """End the thread once it has made its batch."""
        with self.changed:
            self.over = True
            self.changed.notify_all()

    def _run(self) -> None:
        ended = False
        while not ended and (iterator := self._wait_for_room()) is not None:
            batch, error = None, None
            try:
                batch = self.call(iterator)
            except BaseException as raised:  # the job's own: its loop gets it in its turn
                error, ended = raised, True
            del iterator
            with self.changed:
                self.ready.append((batch, error))
                self.changed.notify_all()

    def _wait_for_room(self) -> Any:
        """Return the iterator once another batch may be made; None if none is wanted any more."""
        with self.changed:
            while len(self.ready) >= self.most and not self.over and self.iterator() is not None:
                self.changed.wait(PATIENCE_S)
            return None if self.over else self.iterator()


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Make batches ahead for every iterator of a known library that the job's own loop asks."""
    session.decline_knobs([knob for knob in edits if knob != AHEAD], NO_FORM)
    if AHEAD not in edits:
        return
    iterators: weakref.WeakKeyDictionary[Any, BatchesAhead] = weakref.WeakKeyDictionary()

    def find(call: Callable[[Any], Any], iterator: Any) -> BatchesAhead | None:
        known = iterators.get(iterator)
        if known is None or known.over:
            if AHEAD in session.declined:
                return None
            if saver := next((name for name in SAVES_POSITION if name in sys.modules), None):
                session.decline_knobs([AHEAD], f"{saver} may save how far the iterator is")
                return None
            known = iterators[iterator] = BatchesAhead(iterator, call, edits[AHEAD])
            session.record_applied(AHEAD)
        return known

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def take_batch(call: Callable[[Any], Any], iterator: Any) -> Any:
            ahead = session.run_contained([AHEAD], find, call, iterator)
            return original(call, iterator) if ahead is None else ahead.take_batch()

        return take_batch

    session.wait_for([AHEAD], "the job's own loop asks no iterator of a known data library")
    session.replace_function(data_libraries, "take_batch", make)

    def stop_all() -> None:
        for ahead in list(iterators.values()):
            ahead.stop()

    atexit.register(session.run_contained, [AHEAD], stop_all)
