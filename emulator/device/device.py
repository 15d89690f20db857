"""One emulated device: its streams, its memory, and a host that launches on it and waits for it."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Hashable

from emulator.device.clock import now, sleep_until, spin_until
from emulator.device.config import Config
from emulator.device.memory import Memory
from emulator.device.record import WANTED, Record
from emulator.device.stream import COMPUTE, Cost, Launch, Stream

DEVICE_NUMBERS = 1 << 24
LEAST_BLOCKED_NS = 1_000
"""shorter waits are none"""


class Device:
    """Nothing of it runs: see ``stream``."""

    def __init__(self, index: int, config: Config) -> None:
        self.index, self.config = index, config
        self.lock = threading.RLock()
        self.record = Record(whole=bool(os.environ.get(WANTED)))
        self.memory = Memory(self)
        self.begun = now()
        self.numbers = itertools.count(1 + index * DEVICE_NUMBERS)
        """of launches in profiles"""
        self.streams: list[Stream] = []
        self.default = self.stream()
        self.chosen = threading.local()
        self.searched: set[Hashable] = set()
        """convolutions whose fastest algorithm is known"""
        self.pending: list[Callable[[], None]] = []
        """what waits for other processes to decide when the device comes to something"""

    def stream(self) -> Stream:
        """A new one."""
        with self.lock:
            number = len(self.streams)
            self.streams.append(Stream(number, lambda *what: self.record.ran(number, *what)))
            return self.streams[number]

    @property
    def current(self) -> Stream:
        """The stream that this thread launches on."""
        return getattr(self.chosen, "stream", None) or self.default

    def launch(self, cost: Cost, begun: int, stream: Stream | None = None, name: str = "") -> None:
        """Enqueue an item, which the host began at ``begun``; wait while the queue is full."""
        stream = stream or self.current
        if self.record.heard is not None:
            cost = cost._replace(launch=self._launched(name or cost.kind))
        if (room := stream.full(now(), self.config.queue)) is not None:
            self.wait_for(room, "queue full")
        with self.lock:
            moment = now()
            factor, _ = self.config.clock(stream.mark(moment) - self.begun)
            if factor != 1.0 and cost.kind == COMPUTE:
                cost = slowed(cost, factor)
            stream.put(moment, cost)
        spin_until(begun + self.config.launch_ns)
        if cost.launch is not None:
            cost.launch.end = now()

    def _launched(self, name: str) -> Launch:
        return Launch(name, now(), next(self.numbers), threading.get_native_id())

    def wait_for(self, moment: int, why: str) -> None:
        """Block the host until the device has come to this point."""
        begun = now()
        sleep_until(moment)
        end = now()
        if end - begun > LEAST_BLOCKED_NS:
            self.record.waited(begun, end, why)

    def mark(self, stream: Stream | None = None) -> int:
        """The point behind all work given to a stream (the current one)."""
        with self.lock:
            return (stream or self.current).mark(now())

    def synchronize(self, stream: Stream | None = None, why: str = "synchronize") -> None:
        """Wait for a stream, or for all."""
        for known in list(self.pending):
            known()
        for each in [stream] if stream is not None else list(self.streams):
            self.wait_for(self.mark(each), why)


def slowed(cost: Cost, factor: float) -> Cost:
    """What a kernel takes at another clock; the memory keeps its own."""
    return cost._replace(
        ns=cost.memory_ns + int((cost.ns - cost.memory_ns) / factor),
        active_ns=cost.memory_ns + int((cost.active_ns - cost.memory_ns) / factor),
        tensor_ns=int(cost.tensor_ns / factor),
    )
