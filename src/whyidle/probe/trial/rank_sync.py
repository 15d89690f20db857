"""Ends all ranks of a trial after the same step, and shows which ranks are alive.

A rank that ends alone leaves the others waiting in a collective for ever. So the first rank that
has run long enough writes a step that is still ahead of all of them, and each ends after it. As a
host may be many steps ahead of its device, each rank publishes its count (``SharedStepCounter``). A
rank that trains holds a lock on a file of its own, which the system releases when the rank dies.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

COUNT = struct.Struct("q")


class SharedStepCounter:
    """The step counts of the ranks."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.own: mmap.mmap | None = None

    def start_sharing(self) -> None:
        """Create this rank's counter, if files can be mapped."""
        path = self.folder / f"{os.getpid()}.reached"
        with suppress(OSError, ValueError):
            path.write_bytes(COUNT.pack(0))
            with path.open("r+b") as file:
                self.own = mmap.mmap(file.fileno(), COUNT.size)

    def publish_count(self, count: int) -> None:
        """Publish this rank's number of steps."""
        if self.own is not None:
            COUNT.pack_into(self.own, 0, count)

    def highest_count(self) -> int:
        """Return the highest count of any rank; 0 if none is published."""
        most = 0
        for path in self.folder.glob("*.reached"):
            with suppress(OSError, struct.error):
                (count,) = COUNT.unpack(path.read_bytes())
                most = max(most, count)
        return most


LAST = "last.step"
"""the file that names the step after which all end"""
AHEAD_S = 0.25
AHEAD = (2, 50)
"""bounds of the number of steps that other ranks may be ahead; in between, the steps of
``AHEAD_S``, as a device's launch queue lets a host run ahead for a while"""


class RankSync:
    """One rank's view of all ranks of the job."""

    def __init__(
        self, folder: str, known: Callable[[], tuple[int, int] | None] = lambda: None
    ) -> None:
        self.folder, self.known = folder, known
        """``known`` returns rank and number of ranks, as the framework knows them"""
        self.rank: int | None = None
        self.world = 1
        self.last: int | None = None
        self.joined = False
        self.file: Any = None
        self.reached = SharedStepCounter(folder)

    def join_ranks(self) -> None:
        """Take part in the job: this process trains, possibly as one of several."""
        if self.joined:
            return
        self.joined = True
        self.rank, self.world = self.known() or launcher_rank()
        if self.world > 1:
            self._hold_lock()
            self.reached.start_sharing()

    def _hold_lock(self) -> None:
        with suppress(ImportError, OSError):  # a system, or a file system, without such locks
            import fcntl

            path = Path(self.folder) / f"{os.getpid()}.rank"
            draft = path.with_suffix(".draft-rank")  # renamed once it is locked
            self.file = draft.open("w", encoding="ascii")
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.file.write(str(self.rank))
            self.file.flush()
            draft.rename(path)

    def is_last_step(self, marks: list[int], due: bool) -> bool:
        """Whether to end after this step; ``due``: whether a single rank would end."""
        if self.world <= 1:
            return due
        self.reached.publish_count(len(marks))
        if self.last is None:
            self.last = self._agreed_step()
        if self.last is None and due:
            self._announce_step(
                max(len(marks), self.reached.highest_count()) + safe_distance(marks)
            )
            self.last = self._agreed_step()
            if self.last is None:
                return True  # nothing can be written: end alone rather than never
        return self.last is not None and len(marks) >= self.last

    def wait_for_ranks(self) -> None:
        """Wait for the reports of the others: a launcher may kill them when one rank ends."""
        if self.world <= 1:
            return
        local = int(os.environ.get("LOCAL_WORLD_SIZE") or self.world)
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            if len(list(Path(self.folder).glob("*.trial.json"))) >= local:
                return
            time.sleep(0.005)

    def _agreed_step(self) -> int | None:
        try:
            with open(os.path.join(self.folder, LAST), encoding="ascii") as file:
                return int(file.read())
        except (OSError, ValueError):
            return None

    def _announce_step(self, step: int) -> None:
        """Announce the last step. Creating a link is atomic and fails if it exists, so the first
        rank decides."""
        draft = Path(self.folder) / f"{os.getpid()}.{LAST}"
        with suppress(OSError):
            draft.write_text(str(step), encoding="ascii")
            os.link(draft, os.path.join(self.folder, LAST))


def launcher_rank() -> tuple[int | None, int]:
    """Return rank and number of ranks from the launcher's variables."""
    try:
        return int(os.environ["RANK"]), int(os.environ.get("WORLD_SIZE") or 1)
    except (KeyError, ValueError):
        return None, 1


def safe_distance(marks: list[int]) -> int:
    """Return a number of steps that no rank is ahead."""
    recent = marks[-AHEAD[1] :]
    each_s = (recent[-1] - recent[0]) / 1e9 / max(len(recent) - 1, 1)
    return max(AHEAD[0], min(AHEAD[1], int(AHEAD_S / each_s) if each_s > 0 else AHEAD[1]))
