"""A stream of timed items, kept by arithmetic.

An item begins when the one before it has ended, or when it was enqueued, whichever is later, and
lasts as long as it costs. So everything about it is known when it is enqueued; nothing runs, and
no error of a sleep adds up. The exception is an item that waits for something outside (the other
processes of a collective): what stands behind it is put off until that is known.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple


class Moment:
    """A point of a stream. ``at`` is when the device comes to it, None while that is not known."""

    __slots__ = ("at",)

    def __init__(self, at: int | None = None) -> None:
        self.at = at


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


COMPUTE, COPY_IN, COPY_OUT, COMMUNICATION = "compute", "copy_in", "copy_out", "communication"
Ran = Callable[[int, int, Cost], None]
"""told of every item: begin, end, cost"""


class Stream:
    """One queue of a device. Every call holds the lock of the device."""

    def __init__(self, number: int, lock: threading.RLock, ran: Ran) -> None:
        self.number = number
        self.known = threading.Condition(lock)
        """notified when something put off became known"""
        self.ran = ran
        self.tail = 0
        """when the last item whose time is known ends"""
        self.ends: deque[int] = deque()
        self.deferred: deque[tuple[int, Cost | Moment, Moment | None]] = deque()
        """enqueued at, what (a cost, or a mark to fill in), and what it waits for"""

    def put(self, enqueued: int, cost: Cost) -> None:
        """Append an item."""
        if self.deferred and not self.settle():
            self.deferred.append((enqueued, cost, None))
        else:
            self._run(enqueued, cost)

    def _run(self, enqueued: int, cost: Cost) -> None:
        begin = max(enqueued, self.tail)
        self.tail = begin + cost.ns
        self.ends.append(self.tail)
        self.ran(begin, self.tail, cost)

    def mark(self, enqueued: int) -> Moment:
        """The point behind all that was given to the stream so far."""
        if self.deferred and not self.settle():
            mark = Moment()
            self.deferred.append((enqueued, mark, None))
            return mark
        return Moment(max(enqueued, self.tail))

    def wait(self, enqueued: int, other: Moment) -> None:
        """What comes later on this stream begins only then."""
        if other.at is not None and (not self.deferred or self.settle()):
            self.tail = max(self.tail, other.at)
        else:
            self.deferred.append((enqueued, Moment(), other))

    def settle(self) -> bool:
        """Give times to what was put off, as far as they are known; whether all are."""
        while self.deferred:
            enqueued, what, awaited = self.deferred[0]
            if awaited is not None:
                if awaited.at is None:
                    return False
                self.tail = max(self.tail, awaited.at)
            self.deferred.popleft()
            if isinstance(what, Cost):
                self._run(enqueued, what)
            else:
                what.at = max(enqueued, self.tail)
        return True

    def outstanding(self, moment: int) -> int:
        """Items enqueued and not ended."""
        while self.ends and self.ends[0] <= moment:
            self.ends.popleft()
        return len(self.ends) + len(self.deferred)
