"""Chooses disks for the writes of trials, and watches their free space.

A file that a job opens for writing is copied completely. The disk may be smaller than the job's
own, or memory, and other programs may need it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from whyidle.fix.isolation import mounts

PLACES = ("/var/tmp", "/tmp", "/dev/shm")  # candidate folders for writes
ENOUGH_BYTES = 1 << 30  # least free space of a candidate, for a checkpoint or two
LEAST_BYTES = 32_000_000  # least free space for recordings
SHARE = 0.05  # share of a disk to leave free, as ext4 reserves for administrators
MEMORY = ("ramfs", "tmpfs")
MOUNTS = Path("/proc/self/mountinfo")


class DiskRoom(NamedTuple):
    """Space of the disk of a folder."""

    free_bytes: int
    whole_bytes: int


def disk_room(place: str | Path) -> DiskRoom:
    """Measure the current space."""
    status = os.statvfs(place)
    return DiskRoom(status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize)


def roomy_places() -> list[str]:
    """Writable candidate folders with enough space."""
    places = []
    for place in PLACES:
        with suppress(OSError):
            if os.access(place, os.W_OK) and disk_room(place).free_bytes >= ENOUGH_BYTES:
                places.append(place)
    return places


def best_first(places: Sequence[Path]) -> list[Path]:
    """Sort folders: disks before memory, then by free space, stable on one disk."""
    device = {each: each.stat().st_dev for each in places}
    free = {device[each]: disk_room(each).free_bytes for each in places}
    return sorted(places, key=lambda each: (_in_memory(each), -free[device[each]]))


def _in_memory(place: Path) -> bool:
    try:
        found = mounts.read_mounts(MOUNTS.read_text(encoding="utf-8"))
    except OSError:
        return False  # another system
    path = str(place.resolve())
    around = [each for each in found if mounts.is_inside(path, each.path)]
    return bool(around) and max(around, key=lambda each: len(each.path)).kind in MEMORY


class RoomWatch:
    """Watches the free space for a command's writes."""

    def __init__(self, places: Sequence[Path]) -> None:
        best = best_first(places)
        # memory as second choice is not watched: the job's loader workers may use it
        watched = best[:1] + [place for place in best[1:] if not _in_memory(place)]
        disks = {place.stat().st_dev: place for place in reversed(watched)}
        self._begun = {place: disk_room(place) for place in disks.values()}

    def describe_shortage(self) -> str:
        """Describe a disk that is filling up, as half a sentence, or "". Half of the free
        space may always be used, and more if enough is left for others."""
        for place, (free, whole) in self._begun.items():
            with suppress(OSError):  # the job has removed it
                left = disk_room(place).free_bytes
                if left < min(max(ENOUGH_BYTES, SHARE * whole), free / 2):
                    tops = (tempfile.gettempdir(), *PLACES)
                    within = [top for top in tops if mounts.is_inside(str(place), top)]
                    return (
                        f"its files in a trial are stored in {[*within, place][0]}, which has "
                        f"{left / 1e9:.1f} GB left of {free / 1e9:.1f} GB at the start"
                    )
        return ""
