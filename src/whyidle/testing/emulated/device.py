"""One emulated device: its streams, its memory, and a host that launches on it and waits for it."""

from __future__ import annotations

import threading

from whyidle.testing.emulated.clock import now, sleep_until, spin_until
from whyidle.testing.emulated.config import Config
from whyidle.testing.emulated.memory import Memory
from whyidle.testing.emulated.record import Record
from whyidle.testing.emulated.stream import Cost, Moment, Stream

PATIENCE_S = 0.05
"""between looks at something that another process is to do"""


class Device:
    """Nothing of it runs: see ``stream``."""

    def __init__(self, index: int, config: Config) -> None:
        self.index, self.config = index, config
        self.lock = threading.RLock()
        self.record = Record()
        self.memory = Memory(self)
        self.begun = now()
        self.streams: list[Stream] = []
        self.default = self.stream()
        self.chosen = threading.local()

    def stream(self) -> Stream:
        """A new one."""
        number = len(self.streams)
        with self.lock:
            self.streams.append(
                Stream(number, self.lock, lambda *what: self.record.ran(number, *what))
            )
        return self.streams[number]

    @property
    def current(self) -> Stream:
        """The stream that this thread launches on."""
        return getattr(self.chosen, "stream", None) or self.default

    def launch(self, cost: Cost, begun: int, stream: Stream | None = None) -> None:
        """Enqueue an item, which the host began at ``begun``; wait while the queue is full."""
        stream = stream or self.current
        while (full := self._full(stream)) is not None:
            self._wait(full, stream, "queue full")
        with self.lock:
            moment = now()
            factor, _ = self.config.clock(max(moment, stream.tail) - self.begun)
            if factor != 1.0 and cost.kind == "compute":
                cost = slowed(cost, factor)
            stream.put(moment, cost)
        spin_until(begun + self.config.launch_ns)

    def _full(self, stream: Stream) -> Moment | None:
        with self.lock:
            if stream.outstanding(now()) < self.config.queue:
                return None
            return Moment(stream.ends[0] if stream.ends else None)

    def wait_for(self, mark: Moment, why: str) -> None:
        """Block the host until the device has come to this point."""
        self._wait(mark, None, why)

    def _wait(self, mark: Moment, stream: Stream | None, why: str) -> None:
        begun = now()
        while mark.at is None:  # another process decides
            with self.lock:
                self.settle()
                if mark.at is None:
                    self.default.known.wait(PATIENCE_S)
            if stream is not None and (again := self._full(stream)) is not None:
                mark = again
            elif stream is not None:
                break
        if mark.at is not None and mark.at > now():
            sleep_until(mark.at)
        end = now()
        if end - begun > 1_000:
            self.record.waited(begun, end, why)

    def settle(self) -> None:
        """Give times to all that was put off and is now known."""
        with self.lock:
            waiting = sum(len(stream.deferred) for stream in self.streams)
            while waiting:
                for stream in self.streams:
                    stream.settle()
                left = sum(len(stream.deferred) for stream in self.streams)
                if left == waiting:
                    break
                waiting = left
            self.default.known.notify_all()

    def mark(self, stream: Stream | None = None) -> Moment:
        """The point behind all work given to a stream (the current one)."""
        with self.lock:
            return (stream or self.current).mark(now())

    def synchronize(self, stream: Stream | None = None, why: str = "synchronize") -> None:
        """Wait for a stream, or for all."""
        for each in [stream] if stream is not None else list(self.streams):
            self.wait_for(self.mark(each), why)

    def reached(self, mark: Moment) -> bool:
        """Whether the device has come to this point."""
        if mark.at is None:
            self.settle()
        return mark.at is not None and mark.at <= now()


def slowed(cost: Cost, factor: float) -> Cost:
    """What a kernel takes at another clock; the memory keeps its own."""
    return cost._replace(
        ns=int(cost.ns / factor),
        active_ns=int(cost.active_ns / factor),
        tensor_ns=int(cost.tensor_ns / factor),
    )
