"""Streams and events, as jobs use them: ``torch.emulated.Stream``, ``torch.emulated.Event``."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch

from emulator.device import devices
from emulator.device.clock import now
from emulator.device.device import Device
from emulator.device.stream import Stream as Queue


def index_of(device: Any = None) -> int:
    """The index of a device given in any of the usual ways."""
    if device is None:
        return devices.current()
    if isinstance(device, int):
        return device
    named = torch.device(device)
    return devices.current() if named.index is None else named.index


class Stream:
    """A queue of the device; also a context in which work goes to it."""

    def __init__(self, device: Any = None, priority: int = 0, queue: Queue | None = None) -> None:
        del priority
        self.device_index = index_of(device)
        self.owner = devices.device(self.device_index)
        self.queue = queue or self.owner.stream()
        self.stream_id = self.queue.number
        self._outer: list[Queue | None] = []

    @property
    def device(self) -> torch.device:
        """Whose it is."""
        return torch.device("emulated", self.device_index)

    def synchronize(self) -> None:
        """Block the host until all work given to it is done."""
        self.owner.synchronize(self.queue, "stream synchronize")

    def query(self) -> bool:
        """Whether all work given to it is done."""
        return self.queue.tail <= now()

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event on it."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Work given later waits for an event; the host does not."""
        if event.moment is not None:
            with self.owner.lock:
                self.queue.wait(event.moment)

    def wait_stream(self, stream: Stream) -> None:
        """Work given later waits for what another stream was given so far."""
        self.wait_event(stream.record_event())

    def __enter__(self) -> Stream:
        self._outer.append(getattr(self.owner.chosen, "stream", None))
        self.owner.chosen.stream = self.queue
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.owner.chosen.stream = self._outer.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.queue is self.queue

    def __hash__(self) -> int:
        return hash((self.device_index, self.stream_id))


class Event:
    """A point of a stream, and when the device came to it."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, **_: Any) -> None:
        del blocking
        self.timed = enable_timing
        self.moment: int | None = None
        self.owner: Device | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Behind all work given to the stream (the current one) so far."""
        self.owner = stream.owner if stream is not None else devices.device()
        self.moment = self.owner.mark(stream.queue if stream is not None else None)

    def query(self) -> bool:
        """Whether the device has come to it; an event never recorded has."""
        return self.moment is None or self.moment <= now()

    def synchronize(self) -> None:
        """Block the host until the device has come to it."""
        if self.owner is not None and self.moment is not None:
            self.owner.wait_for(self.moment, "event synchronize")

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream (the current one) wait for it."""
        (stream or current_stream()).wait_event(self)

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to another.

        Raises:
            RuntimeError: one was not recorded, not made for timing, or not come to.
        """
        if not (self.timed and end.timed):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if self.moment is None or end.moment is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return (end.moment - self.moment) / 1e6


def current_stream(device: Any = None) -> Stream:
    """The stream that this thread launches on."""
    index = index_of(device)
    return Stream(index, queue=devices.device(index).current)


def default_stream(device: Any = None) -> Stream:
    """The first stream of a device."""
    index = index_of(device)
    return Stream(index, queue=devices.device(index).default)


def stream(chosen: Stream) -> Stream:
    """``with torch.emulated.stream(s):`` as CUDA has it."""
    return chosen


def set_stream(chosen: Stream) -> None:
    """Launch on this stream from now on."""
    chosen.owner.chosen.stream = chosen.queue
