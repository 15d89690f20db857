"""Limits the disk space of one process's recording, as the job needs it for its checkpoints."""

from __future__ import annotations

import os

MOST_BYTES = 1 << 30
"""most bytes of one process: most of a day of steps of 10 ms"""
LEFT_BYTES = 1 << 30
"""free bytes on the disk below which the recording ends"""
EVERY_BYTES = 1 << 24
"""bytes written between checks of the free space; smaller recordings are never ended"""


class QuotaReachedError(Exception):
    """The recording has reached its quota."""


class DiskQuota:
    """The disk space that one process's recording has used."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.written = 0
        self._next = EVERY_BYTES

    def check_quota(self) -> None:
        """Check the quota after a write.

        Raises:
            QuotaReachedError: it is; with the reason.
        """
        if self.written >= MOST_BYTES:
            raise QuotaReachedError(f"{MOST_BYTES >> 20:,} MiB were recorded of one process")
        if self.written >= self._next:
            self._next = self.written + EVERY_BYTES
            disk = os.statvfs(self.folder)
            left = disk.f_bavail * disk.f_frsize
            if left < LEFT_BYTES and disk.f_blocks:  # an object store may report no sizes
                raise QuotaReachedError(f"the disk of the recording has {left >> 20:,} MiB left")
