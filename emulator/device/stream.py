"""A stream of timed items, kept by arithmetic.

An item begins when the one before it has ended, or when it was enqueued, whichever is later, and
lasts as long as it costs. So everything about it is known when it is enqueued; nothing runs, and
no error of a sleep adds up. A point of a stream is the nanosecond at which the device comes to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple


class Launch:
    """How an item came to be enqueued; kept only while a profiler runs. ``told`` is what else a
    profile says of its kernel."""

    __slots__ = ("begin", "end", "name", "number", "thread", "told")

    def __init__(self, name: str, begin: int, number: int, thread: int) -> None:
        self.name, self.begin, self.end = name, begin, begin
        self.number, self.thread = number, thread
        self.told: dict[str, object] = {}


class Cost(NamedTuple):
    """What an item takes. ``active_ns``, ``tensor_ns`` and ``memory_ns`` are how much of its time
    the units, their tensor cores and the memory are busy; ``bytes_`` is what it moves over the
    link."""

    kind: str
    ns: int
    active_ns: int = 0
    tensor_ns: int = 0
    memory_ns: int = 0
    bytes_: int = 0
    launch: Launch | None = None


COMPUTE, COPY_IN, COPY_OUT, COMMUNICATION = "compute", "copy_in", "copy_out", "communication"
Ran = Callable[[int, int, Cost], None]
"""told of every item: begin, end, cost"""


class Stream:
    """One queue of a device. Every call holds the lock of the device."""

    def __init__(self, number: int, ran: Ran) -> None:
        self.number = number
        self.ran = ran
        self.tail = 0
        """when the last item ends"""
        self.ends: deque[int] = deque()

    def put(self, enqueued: int, cost: Cost) -> None:
        """Append an item."""
        begin = max(enqueued, self.tail)
        self.tail = begin + cost.ns
        self.ends.append(self.tail)
        self.ran(begin, self.tail, cost)

    def mark(self, enqueued: int) -> int:
        """The point behind all that was given to the stream so far."""
        return max(enqueued, self.tail)

    def wait(self, moment: int) -> None:
        """What comes later on this stream begins only then."""
        self.tail = max(self.tail, moment)

    def full(self, moment: int, most: int) -> int | None:
        """When there is room again for an item, if so many are outstanding."""
        while self.ends and self.ends[0] <= moment:
            self.ends.popleft()
        return self.ends[len(self.ends) - most] if len(self.ends) >= most else None
