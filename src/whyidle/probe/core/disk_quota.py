"""How much of a disk one process's recording may take: the job needs it for its checkpoints.

A month of training must not fill it, and what is there when the job begins to save is the job's.
"""

from __future__ import annotations

import os

MOST_BYTES = 1 << 30
"""of one process: most of a day of steps of 10 ms"""
LEFT_BYTES = 1 << 30
"""what must be left on the disk, for the recording to go on"""
EVERY_BYTES = 1 << 24
"""between looks at what is left; a recording as small as this is kept in any case"""


class QuotaReachedError(Exception):
    """No more is to be written."""


class DiskQuota:
    """What one process has written, and may."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.written = 0
        self._next = EVERY_BYTES

    def check_quota(self) -> None:
        """Now that so much is written: is it enough?

        Raises:
            QuotaReachedError: it is; with the reason.
        """
        if self.written >= MOST_BYTES:
            raise QuotaReachedError(f"{MOST_BYTES >> 20:,} MiB were recorded of one process")
        if self.written >= self._next:
            self._next = self.written + EVERY_BYTES
            disk = os.statvfs(self.folder)
            left = disk.f_bavail * disk.f_frsize
            if left < LEFT_BYTES and disk.f_blocks:  # a store of objects may tell no sizes at all
                raise QuotaReachedError(f"the disk of the recording has {left >> 20:,} MiB left")
