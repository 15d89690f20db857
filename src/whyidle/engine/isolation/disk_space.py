"""Where what a trial writes is kept, and what room is left there.

A file that a job opens for writing is copied there whole, and it may be another disk than the job's
own, a small one of a container, or memory: filling it would hurt whoever else writes there.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from whyidle.engine.isolation import mounts

PLACES = ("/var/tmp", "/tmp", "/dev/shm")
"""where a second place for what is written may be found"""
ENOUGH_BYTES = 1 << 30
"""a shelf with less room than a checkpoint or two is none"""
LEAST_BYTES = 32_000_000
"""what trials record takes a few MB, of many ranks more"""
SHARE = 0.05
"""of a disk; file systems keep as much back for those who have to repair a machine (ext4)"""
MEMORY = ("ramfs", "tmpfs")
MOUNTS = Path("/proc/self/mountinfo")


class DiskRoom(NamedTuple):
    """Of the disk that a folder is on."""

    free_bytes: int
    whole_bytes: int


def disk_room(place: str | Path) -> DiskRoom:
    """What there is now."""
    told = os.statvfs(place)
    return DiskRoom(told.f_bavail * told.f_frsize, told.f_blocks * told.f_frsize)


def roomy_places() -> list[str]:
    """Places that can be written and have enough of it."""
    found = []
    for each in PLACES:
        with suppress(OSError):
            if os.access(each, os.W_OK) and disk_room(each).free_bytes >= ENOUGH_BYTES:
                found.append(each)
    return found


def best_first(places: Sequence[Path]) -> list[Path]:
    """Disks before memory, and more room before less; those on one disk stay as they are."""
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
    """The room that a command has for what it writes, from its start on."""

    def __init__(self, places: Sequence[Path]) -> None:
        best = best_first(places)
        # of memory that is the second choice others may take their share: loaders of the job's own
        watched = best[:1] + [place for place in best[1:] if not _in_memory(place)]
        disks = {place.stat().st_dev: place for place in reversed(watched)}
        self._begun = {place: disk_room(place) for place in disks.values()}

    def describe_shortage(self) -> str:
        """That a disk is filling up, in half a sentence; empty where none is. Half of what was free
        may be taken wherever it is, and more where enough is left for others."""
        for place, (free, whole) in self._begun.items():
            with suppress(OSError):  # the job has removed it
                left = disk_room(place).free_bytes
                if left < min(max(ENOUGH_BYTES, SHARE * whole), free / 2):
                    return (
                        f"what it writes in a trial is kept in {_place_name(place)}, where "
                        f"{left / 1e9:.1f} GB are left, {free / 1e9:.1f} when it began"
                    )
        return ""


def _place_name(place: Path) -> str:
    tops = (tempfile.gettempdir(), *PLACES)
    return next((top for top in tops if mounts.is_inside(str(place), top)), str(place))
