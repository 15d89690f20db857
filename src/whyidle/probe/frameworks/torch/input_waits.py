"""How long the training loop waits for the next batch of a DataLoader, with and without workers.

See ``step_hooks`` for how hooks of every step are written.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from typing import Any

from ...core.events import Events
from ...core.wrapped_functions import set_attribute

clock, thread, exception = time.perf_counter_ns, threading.get_ident, sys.exc_info


def measure_input_waits(events: Events, kind: Any) -> None:
    """Record how long the loop waits for each batch, by wrapping ``__next__`` of ``kind``, the base
    class of all loaders' iterators."""
    original = kind.__next__

    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807
        if "loader" in events.off:
            return original(self)
        if events.careful:
            return observe(self)
        begin = clock()
        try:
            return original(self)
        finally:
            try:
                if type(self) is events.iterator and thread() == events.home:
                    events.add((events.batch, begin, clock()))
                else:
                    events.batch_taken(type(self), begin)
            except Exception as error:  # contained
                events.report_failure("loader", error)

    def observe(self: Any) -> Any:
        events.notify("on_batch_request")
        begin = clock()
        try:
            return original(self)
        finally:
            try:
                events.batch_taken(type(self), begin)
                events.notify("on_batch_ready", begin)
                events.notify("on_iterator", self)
                if exception()[0] is StopIteration:
                    events.notify("on_batches_end")
                events.update_careful()
            except Exception as error:  # contained
                events.report_failure("loader", error)

    events.undo["loader"] = set_attribute(kind, "__next__", __next__)
