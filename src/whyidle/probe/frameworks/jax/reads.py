"""Records where the thread that trains waits for the value of an array."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from ... import wire
from ...core.events import Events
from ...core.recorder import RUNTIME, clock_ns
from ...core.span_hooks import mark_place
from ...core.wrapped_functions import set_attribute
from ..keras_hooks import after_import
from .compiled_calls import CompiledCalls

HOOK = "reads"
WAITED_NS = 20_000
"""shortest read that counts as waiting"""
VALUE, WAIT = "ArrayImpl._value", "jax.block_until_ready"
LOGS = ("keras.src.utils.python_utils", "pythonify_logs")
"""Keras reads the numbers of a step for its callbacks; on a CPU past ``ArrayImpl._value``"""


class Reads:
    """The reads of one process. Those inside others are not recorded."""

    def __init__(self, events: Events, calls: CompiledCalls) -> None:
        self.events, self.calls = events, calls
        self.inside = False
        self.waits = 0

    def watch(self, original: Callable[..., Any], label: str) -> Callable[..., Any]:
        """Return a function that records the calls of ``original`` that had to wait."""
        tag = self.calls.tag_name(wire.SCALAR_READ, label, RUNTIME)

        @functools.wraps(original, assigned=("__doc__",))  # some are methods of C++ classes
        def read(*args: Any, **kwargs: Any) -> Any:
            if self.inside or threading.get_ident() != self.events.home:
                return original(*args, **kwargs)
            self.inside, begin = True, clock_ns()
            try:
                return original(*args, **kwargs)
            finally:
                self.inside = False
                if clock_ns() - begin > WAITED_NS:
                    self.events.run_contained(HOOK, self._record_wait, tag, begin)

        return read

    def _record_wait(self, tag: int, begin: int) -> None:
        end = clock_ns()
        self.events.add((tag, begin, end))
        self.waits += 1
        if not self.waits & (self.waits - 1):  # rarely: the place hardly changes
            mark_place(self.events, begin)
        output = self.calls.output
        try:
            if output is not None and output.is_ready():
                self.calls.note_idle(end)
        except RuntimeError:  # it was donated or deleted
            self.calls.output = None


def install_read_hooks(events: Events, jax: Any, calls: CompiledCalls) -> None:
    """Watch the functions through which the value of an array reaches Python."""
    from jax._src.array import ArrayImpl

    reads, calls.wait = Reads(events, calls), ArrayImpl.block_until_ready
    undoes = []
    value = vars(ArrayImpl).get("_value")
    if isinstance(value, property) and value.fget is not None:
        watched = property(reads.watch(value.fget, VALUE), value.fset, value.fdel, value.__doc__)
        undoes.append(set_attribute(ArrayImpl, "_value", watched))
    for owner, name in ((ArrayImpl, "block_until_ready"), (jax, "block_until_ready")):
        if hasattr(owner, name):
            original = getattr(owner, name)
            undoes.append(set_attribute(owner, name, reads.watch(original, WAIT)))

    def watch_logs(loaded: Any) -> None:
        watch = functools.partial(reads.watch, label=LOGS[1])
        events.patch_function(LOGS[1], loaded, LOGS[1], watch)

    after_import(events, *LOGS, watch_logs)
    events.undo[HOOK] = lambda: [undo() for undo in undoes]
