"""Memory that this process shares with the workers that it forks: samples by their index.

Nothing is ever moved or freed in it. Who adds takes a stretch under a lock, fills it, and only
then says where it is, so that who looks finds all of it or nothing; on machines that may show one
store before an earlier one, a checksum says whether it is whole.
"""

from __future__ import annotations

import mmap
import multiprocessing
import platform
import struct
import zlib
from typing import Any

RECORD = struct.Struct("<QI4x")
"""length and checksum of a sample, before it"""
IN_ORDER = platform.machine() in ("x86_64", "AMD64", "i686")
PATIENCE_S = 0.05
"""for the lock: whoever holds it does so for a microsecond, unless it was killed"""
OFF, PROVEN, EVERY = range(3)
"""what processes tell each other of a dataset: whether nothing is kept any more, how many samples
it was proven with, and one of how many looks makes its sample again (0: not settled)"""


class Room:
    """Where the samples of all datasets lie.

    Raises:
        OSError: there is no such memory.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.body = mmap.mmap(-1, max(size, 1))
        self.fill = memoryview(mmap.mmap(-1, 8)).cast("q")
        self.lock = multiprocessing.get_context("fork").Lock()

    def put(self, data: bytes) -> int:
        """Where it lies now; -1 where there is no room, or not in time."""
        taken = -(-(RECORD.size + len(data)) // 8) * 8
        if not self.lock.acquire(timeout=PATIENCE_S):
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
        """What lies there, if it is whole."""
        data = self.view(begin)
        return None if data is None else bytes(data)

    def view(self, begin: int) -> memoryview | None:
        """The same in its place, where nobody will ever change it."""
        length, check = RECORD.unpack_from(self.body, begin)
        if begin + RECORD.size + length > self.size:
            return None
        data = memoryview(self.body)[begin + RECORD.size : begin + RECORD.size + length]
        return data if IN_ORDER or zlib.crc32(data) == check else None


class Index:
    """Of one dataset: where each of its samples lies, whether they are to be trusted."""

    def __init__(self, room: Room, items: int) -> None:
        self.room = room
        self.items = items
        whole: Any = memoryview(mmap.mmap(-1, 8 * (items + EVERY + 1))).cast("q")
        self.state, self.places = whole[: EVERY + 1], whole[EVERY + 1 :]

    def get(self, item: int) -> bytes | None:
        """The sample, if it is there."""
        place = self.places[item] if 0 <= item < self.items else 0
        return self.room.get(place - 1) if place else None

    def put(self, item: int, data: bytes) -> bool:
        """Keep it; whether there was room."""
        begin = self.room.put(data) if 0 <= item < self.items else -1
        if begin >= 0:
            self.places[item] = begin + 1
        return begin >= 0
