"""The memory of a device: a caching allocator over a fixed number of bytes.

It works as PyTorch's for CUDA does. Segments are got from the device, which takes a while, and
kept; requests are cut from what is free in them, best fit first, and neighbours that are free are
joined. A request that fits nowhere, with the device full, is a *retry*: the device is drained, all
empty segments are given back, which takes long, and then it fits or it is out of memory.
"""

from __future__ import annotations

import bisect
import threading
from collections import deque
from typing import Protocol

import torch

from emulator.device.clock import now, sleep_until, spin_until
from emulator.device.config import Config
from emulator.device.record import Record

ROUND = 512
SMALL = 1 << 20
"""requests up to this share segments of their own"""
SMALL_SEGMENT = 2 << 20
MEDIUM = 10 << 20
MEDIUM_SEGMENT = 20 << 20
LARGE_ROUND = 2 << 20


class Owner(Protocol):
    """The device that the memory belongs to."""

    index: int
    config: Config
    lock: threading.RLock
    record: Record

    def synchronize(self, *, why: str) -> None:
        """Wait until all of it is done."""


class Span:
    """Neighbouring bytes of one segment, free or not."""

    __slots__ = ("after", "before", "free", "size", "small")

    def __init__(self, size: int, small: bool) -> None:
        self.size, self.small, self.free = size, small, False
        self.before: Span | None = None
        self.after: Span | None = None


class Block:
    """Some bytes, given back when nobody holds them."""

    __slots__ = ("memory", "span")

    def __init__(self, memory: Memory, span: Span) -> None:
        self.memory, self.span = memory, span

    def __del__(self) -> None:
        self.memory.dropped.append(self.span)  # at any moment, within ``allocate`` too


class Memory:
    """Of one device. Sizes are bytes."""

    def __init__(self, device: Owner) -> None:
        self.device = device
        self.dropped: deque[Span] = deque()
        """given back, and not yet taken notice of"""
        self.spans: dict[bool, list[Span]] = {True: [], False: []}
        """what is free, smallest first, for small requests and for others"""
        self._allocated = 0
        self.reserved = self.most_allocated = self.most_reserved = 0
        self.segments = self.released = self.retries = self.ooms = 0

    @property
    def allocated(self) -> int:
        """Of what lives."""
        self._collect()
        return self._allocated

    def allocate(self, size: int) -> Block:
        """Some bytes.

        Raises:
            torch.OutOfMemoryError: there are not so many.
        """
        size = max(ROUND, -(-size // ROUND) * ROUND)
        with self.device.lock:
            self._collect()
            span = self._fitting(size) or self._segment(size)
            self._cut(span, size)
            self._allocated += span.size
            self.most_allocated = max(self.most_allocated, self._allocated)
        return Block(self, span)

    def _fitting(self, size: int) -> Span | None:
        spans = self.spans[size <= SMALL]
        at = bisect.bisect_left(spans, size, key=lambda span: span.size)
        return spans.pop(at) if at < len(spans) else None

    def _segment(self, size: int) -> Span:
        """A new one, after a retry if need be."""
        whole = SMALL_SEGMENT if size <= SMALL else MEDIUM_SEGMENT
        if size > MEDIUM:
            whole = -(-size // LARGE_ROUND) * LARGE_ROUND
        capacity = self.device.config.memory_bytes
        if self.reserved + whole > capacity:
            self.retries += 1
            self.release("allocation retried")
        if self.reserved + whole > capacity:
            self.ooms += 1
            raise torch.OutOfMemoryError(
                f"Emulated device out of memory. Tried to allocate {size / 2**20:.2f} MiB. Device "
                f"{self.device.index} has a total capacity of {capacity / 2**20:.2f} MiB, of which "
                f"{self._allocated / 2**20:.2f} MiB is allocated by PyTorch, and "
                f"{(self.reserved - self._allocated) / 2**20:.2f} MiB is reserved but unallocated."
            )
        self.segments += 1
        self.reserved += whole
        self.most_reserved = max(self.most_reserved, self.reserved)
        begun = now()
        spin_until(begun + self.device.config.allocate_ns)
        self.device.record.waited(begun, now(), "segment")
        return Span(whole, size <= SMALL)

    def _cut(self, span: Span, size: int) -> None:
        """Keep what is asked for; the rest stays free, if it is worth keeping."""
        span.free = False
        left = span.size - size
        if left < ROUND or (not span.small and left <= SMALL):
            return
        rest = Span(left, span.small)
        rest.before, rest.after, span.after = span, span.after, rest
        if rest.after is not None:
            rest.after.before = rest
        span.size = size
        self._keep(rest)

    def _keep(self, span: Span) -> None:
        span.free = True
        bisect.insort(self.spans[span.small], span, key=lambda each: each.size)

    def _forget(self, span: Span) -> None:
        spans = self.spans[span.small]
        at = bisect.bisect_left(spans, span.size, key=lambda each: each.size)
        while spans[at] is not span:
            at += 1
        del spans[at]

    def _collect(self) -> None:
        """Take notice of what was given back, and join neighbours."""
        with self.device.lock:
            while self.dropped:
                span = self.dropped.popleft()
                self._allocated -= span.size
                for other in (span.before, span.after):
                    if other is not None and other.free:
                        self._forget(other)
                        span = (
                            _joined(other, span) if other is span.before else _joined(span, other)
                        )
                self._keep(span)

    def release(self, why: str) -> None:
        """Give empty segments back to the device, which has to be drained for that."""
        with self.device.lock:
            self._collect()
            for spans in self.spans.values():
                empty = [each for each in spans if each.before is None and each.after is None]
                if not empty:
                    continue
                self.device.synchronize(why=why)
                begun = now()
                sleep_until(begun + self.device.config.release_ns * len(empty))
                self.device.record.waited(begun, now(), why)
                spans[:] = [each for each in spans if each not in empty]
                self.reserved -= sum(each.size for each in empty)
                self.released += len(empty)

    def stats(self) -> dict[str, int]:
        """As ``torch.cuda.memory_stats`` names them."""
        return {
            "allocated_bytes.all.current": self.allocated,
            "allocated_bytes.all.peak": self.most_allocated,
            "reserved_bytes.all.current": self.reserved,
            "reserved_bytes.all.peak": self.most_reserved,
            "num_alloc_retries": self.retries,
            "num_ooms": self.ooms,
            "num_device_alloc": self.segments,
            "num_device_free": self.released,
        }


def _joined(first: Span, second: Span) -> Span:
    """Two neighbours as one."""
    first.size += second.size
    first.after = second.after
    if first.after is not None:
        first.after.before = first
    return first
