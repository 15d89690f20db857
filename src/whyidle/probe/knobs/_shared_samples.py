"""Stores samples by index in memory that this process shares with the workers that it forks.

Nothing in it is ever moved or freed. A writer reserves space under a lock, fills it, and only then
publishes its place, so that readers find the whole sample or none. On machines that may reorder
stores, a checksum shows whether a sample is complete.
"""

from __future__ import annotations

import mmap
import multiprocessing
import platform
import struct
import zlib
from typing import Any

RECORD = struct.Struct("<QI4x")
"""header of a sample: length and checksum"""
IN_ORDER = platform.machine() in ("x86_64", "AMD64", "i686")
OFF, PROVEN = range(2)
"""shared state of a dataset: whether the cache was dropped, and how many samples have proven it"""


class Room:
    """The memory for the samples of all datasets.

    Raises:
        OSError: the memory cannot be mapped.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.body = mmap.mmap(-1, max(size, 1))
        self.fill = memoryview(mmap.mmap(-1, 8)).cast("q")
        self.lock = multiprocessing.get_context("fork").Lock()

    def allocate_block(self, data: bytes) -> int:
        """Store a sample and return its place; -1 if memory is full or the lock is not free."""
        taken = -(-(RECORD.size + len(data)) // 8) * 8
        # held for a microsecond, unless its holder was killed
        if not self.lock.acquire(timeout=0.05):
            return -1
        try:
            begin = self.fill[0]
            if begin + taken > self.size:
                return -1
            self.fill[0] = begin + taken
        finally:
            self.lock.release()
        end = begin + RECORD.size + len(data)
        RECORD.pack_into(self.body, begin, len(data), 0 if IN_ORDER else zlib.crc32(data))
        self.body[begin + RECORD.size : end] = data
        return int(begin)

    def get(self, begin: int) -> bytes | None:
        """Return the sample at a place, if it is complete."""
        length, check = RECORD.unpack_from(self.body, begin)
        if begin + RECORD.size + length > self.size:
            return None
        data = self.body[begin + RECORD.size : begin + RECORD.size + length]
        return data if IN_ORDER or zlib.crc32(data) == check else None


class Index:
    """The places of one dataset's samples, and its shared state."""

    def __init__(self, room: Room, items: int) -> None:
        self.room = room
        self.items = items
        whole: Any = memoryview(mmap.mmap(-1, 8 * (items + PROVEN + 1))).cast("q")
        self.state, self.places = whole[: PROVEN + 1], whole[PROVEN + 1 :]

    def get(self, item: int) -> bytes | None:
        """Return a sample, if it is stored."""
        place = self.places[item] if 0 <= item < self.items else 0
        return self.room.get(place - 1) if place else None

    def store_sample(self, item: int, data: bytes) -> bool:
        """Store a sample; return whether that succeeded."""
        begin = self.room.allocate_block(data) if 0 <= item < self.items else -1
        if begin >= 0:
            self.places[item] = begin + 1
        return begin >= 0
