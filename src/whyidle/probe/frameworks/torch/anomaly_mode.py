"""What anomaly mode takes to note where every operator was called, and how long forward passes are.

Samples show little of it: noting holds the interpreter's lock, which the sampler gets when an
operator lets go of it. So the function that PyTorch calls for it is timed: a microsecond on 50 to
80. It is called for every operator that needs a gradient, so its calls also tell when the forward
pass of a step begins and ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ...core.events import Events
from ...core.recorder import now

WHERE = "format_stack"
MOST_READS = 1_000


class AnomalyMode:
    """How much the training thread noted, and how long that and its forward passes took."""

    def __init__(self, events: Events) -> None:
        self.events = events
        events.live_facts["noting"] = lambda: list(self.read())
        self.calls = self.ns = self.span_ns = self.last = 0
        self.step = -1
        """in which the last call was"""
        self.reads: list[tuple[int, int, int, int]] = []
        """when; calls until then, ns in them, and ns from the first to the last of every step"""

    def install(self) -> None:
        """Time it. A PyTorch that notes in another way calls nothing here."""
        from torch.fx import traceback

        if hasattr(traceback, WHERE):
            self.read()
            self.events.patch(WHERE, traceback, WHERE, self._timed)

    def _timed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            begin = now()
            stack = original(*args, **kwargs)
            if self.events.home in (0, threading.get_ident()):
                self.took(begin, now())
            if stack and stack[-1].startswith(here):
                del stack[-1]  # the original leaves out itself only: the last line is ours
            return stack

        code = getattr(original, "__code__", None)
        here = f'  File "{code.co_filename if code else __file__}"'
        if code:  # a look that finds the thread at our first line has found it noting
            wrapper.__code__ = wrapper.__code__.replace(
                co_filename=code.co_filename, co_name=WHERE, co_firstlineno=code.co_firstlineno
            )
        return wrapper

    def took(self, begin: int, end: int) -> None:
        """One call."""
        step = self.events.steps
        since = self.last if step == self.step else begin
        self.calls, self.ns = self.calls + 1, self.ns + end - begin
        self.span_ns += end - since
        self.last, self.step = end, step

    def read(self) -> list[tuple[int, int, int, int]]:
        """All reads, with one of now; thinned as they grow many."""
        self.reads.append((now(), self.calls, self.ns, self.span_ns))
        if len(self.reads) > MOST_READS:
            del self.reads[1:-1:2]
        return self.reads
