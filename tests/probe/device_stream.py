"""An imagined device stream with known truth, independent of the host. Work starts when it has
arrived and the work before it is done. The stream's clock has another origin and is a little fast;
times between events are floats of milliseconds, as in CUDA. What a real device forbids raises:
calls during a capture, timing of incomplete events. Blocking calls do not exist."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

ARRIVE_NS = 4_000
FAST = 20e-6
OFFSET_NS = 987_654_321_000


class StreamError(RuntimeError):
    """A call that the device's runtime would not allow."""


class Event:
    """A place in the stream, and when the device reaches it; None before it is recorded."""

    def __init__(self) -> None:
        self.time: int | None = None


class ImaginedStream:
    """One stream; ``clock`` returns the host's time, ns. ``busy`` holds what it ran: (start, end),
    ns of the host."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.busy: list[tuple[int, int]] = []
        self.calls: list[str] = []
        """calls of the observer"""
        self.number = 7
        self.capture = False
        self.stuck = False
        """events do not complete any more"""
        self._free = 0

    def launch(self, duration: int) -> None:
        """Launch work; return at once."""
        start = max(self._free, self.clock() + ARRIVE_NS)
        self._free = start + duration
        self.busy.append((start, self._free))

    @property
    def finish_time(self) -> int:
        """When all launched work will be done, ns; a host that waits for it continues then."""
        return max(self._free, self.clock())

    def busy_in(self, start: int, end: int) -> int:
        """Return how long it ran, ns."""
        edges = np.array(self.busy, dtype=np.int64).reshape(-1, 2)
        ran = np.minimum(edges[:, 1], end) - np.maximum(edges[:, 0], start)
        return int(np.maximum(ran, 0).sum())

    def event(self) -> Event:
        """Return a new event."""
        self.calls.append("event")
        return Event()

    def record(self, event: Event) -> int:
        """Record an event after all work so far."""
        self._ask("record")
        event.time = max(self._free, self.clock() + ARRIVE_NS)
        return self.number

    def query(self, event: Event) -> bool:
        """Return whether the device has reached an event."""
        self._ask("query")
        if event.time is None:
            raise StreamError("the event was never recorded")
        return not self.stuck and event.time <= self.clock()

    def elapsed_ms(self, first: Event, last: Event) -> float:
        """Return the time between two events on the device's clock."""
        self._ask("elapsed_ms")
        if self.stuck or first.time is None or last.time is None or last.time > self.clock():
            raise StreamError("both events must be completed")
        ticks = [OFFSET_NS + round(time * (1 + FAST)) for time in (first.time, last.time)]
        return float(np.float32((ticks[1] - ticks[0]) // 500 * 500 / 1e6))

    def is_capturing(self) -> bool:
        """Return whether a capture is active; always allowed."""
        self.calls.append("capturing")
        return self.capture

    def _ask(self, call: str) -> None:
        self.calls.append(call)
        if self.capture:
            raise StreamError(f"{call} during a capture, which is lost now")
