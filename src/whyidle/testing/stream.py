"""An imagined device that runs beside the host: what is asked of one stream, with known truth.

Work given to it starts when it has arrived and the work before it is done. Its clock starts
elsewhere than the host's and is a little fast; times between events come as a float of
milliseconds, as CUDA's do. What a real one forbids raises: asking during a capture, timing events
that it has not come to. What would wait does not exist.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

ARRIVE_NS = 4_000
FAST = 20e-6
OFFSET_NS = 987_654_321_000


class StreamError(RuntimeError):
    """What the device's runtime would not have allowed."""


class Event:
    """A place in the stream, and when the device comes to it; None before it is recorded."""

    def __init__(self) -> None:
        self.time: int | None = None


class ImaginedStream:
    """One stream; ``clock`` tells the host's time, ns. ``busy`` holds what it ran: (start, end),
    ns of the host."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.busy: list[tuple[int, int]] = []
        self.calls: list[str] = []
        """what was asked of it by whoever watches"""
        self.number = 7
        self.capture = False
        self.stuck = False
        """events do not complete any more"""
        self._free = 0

    def launch(self, duration: int) -> None:
        """Give it work; returns at once."""
        start = max(self._free, self.clock() + ARRIVE_NS)
        self._free = start + duration
        self.busy.append((start, self._free))

    @property
    def done(self) -> int:
        """When it will have done all that it was given, ns: a host that waits for it goes on."""
        return max(self._free, self.clock())

    def busy_in(self, start: int, end: int) -> int:
        """How long it ran, ns."""
        edges = np.array(self.busy, dtype=np.int64).reshape(-1, 2)
        ran = np.minimum(edges[:, 1], end) - np.maximum(edges[:, 0], start)
        return int(np.maximum(ran, 0).sum())

    def event(self) -> Event:
        """A new event."""
        self.calls.append("event")
        return Event()

    def record(self, event: Event) -> int:
        """Behind all work given so far."""
        self._ask("record")
        event.time = max(self._free, self.clock() + ARRIVE_NS)
        return self.number

    def query(self, event: Event) -> bool:
        """Whether the device has come to it."""
        self._ask("query")
        if event.time is None:
            raise StreamError("the event was never recorded")
        return not self.stuck and event.time <= self.clock()

    def elapsed_ms(self, first: Event, last: Event) -> float:
        """On the device's clock."""
        self._ask("elapsed_ms")
        if self.stuck or first.time is None or last.time is None or last.time > self.clock():
            raise StreamError("both events must be completed")
        ticks = [OFFSET_NS + round(time * (1 + FAST)) for time in (first.time, last.time)]
        return float(np.float32((ticks[1] - ticks[0]) // 500 * 500 / 1e6))

    def is_capturing(self) -> bool:
        """Asking this is always allowed."""
        self.calls.append("capturing")
        return self.capture

    def _ask(self, what: str) -> None:
        self.calls.append(what)
        if self.capture:
            raise StreamError(f"{what} during a capture, which is lost now")
