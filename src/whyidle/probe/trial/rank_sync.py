"""What the ranks of a trial have in common: they end after the same step, and show that they live.

A rank that ends alone leaves the others waiting in an exchange for ever. So the first one that has
run long enough writes down a step that is still ahead of all of them, and each ends after that: a
host may be many steps ahead of its device, so each tells how many it has made (``reached``). A rank
that trains holds a lock on a file of its own, which the system takes away when it dies.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .step_counter import SharedStepCounter

LAST = "last.step"
"""the file that names the step after which all end"""
AHEAD_S = 0.25
AHEAD = (2, 50)
"""steps that others may be ahead: of so many seconds, since a device's queue of launches lets a
host run ahead of it for a while, and bounds of that"""
GATHER_S = 1.0
"""for so long one that has told waits for the others"""


class RankSync:
    """The ranks of one job, as one of them sees them."""

    def __init__(
        self, folder: str, known: Callable[[], tuple[int, int] | None] = lambda: None
    ) -> None:
        self.folder, self.known = folder, known
        """``known``: rank and number of ranks, as the framework knows them"""
        self.rank: int | None = None
        self.world = 1
        self.last: int | None = None
        self.joined = False
        self.file: Any = None
        self.reached = SharedStepCounter(folder)

    def join_ranks(self) -> None:
        """Take part: this process trains, and may be one of several."""
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
            draft = path.with_suffix(".draft-rank")  # whoever sees the file sees the lock
            self.file = draft.open("w", encoding="ascii")
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.file.write(str(self.rank))
            self.file.flush()
            draft.rename(path)

    def is_last_step(self, marks: list[int], due: bool) -> bool:
        """Whether it ends after this step; ``due`` is whether it would if it were alone."""
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
                return True  # nothing can be written: better alone than never
        return self.last is not None and len(marks) >= self.last

    def wait_for_ranks(self) -> None:
        """Wait for what the others tell: a launcher that sees one end may kill them."""
        if self.world <= 1:
            return
        local = int(os.environ.get("LOCAL_WORLD_SIZE") or self.world)
        deadline = time.monotonic() + GATHER_S
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
        """The first one decides: a link is made at once and never over another."""
        draft = Path(self.folder) / f"{os.getpid()}.{LAST}"
        with suppress(OSError):
            draft.write_text(str(step), encoding="ascii")
            os.link(draft, os.path.join(self.folder, LAST))


def launcher_rank() -> tuple[int | None, int]:
    """The rank of this process, and how many there are, as the launcher says."""
    try:
        return int(os.environ["RANK"]), int(os.environ.get("WORLD_SIZE") or 1)
    except (KeyError, ValueError):
        return None, 1


def safe_distance(marks: list[int]) -> int:
    """How many steps from here all ranks are certain to come by."""
    recent = marks[-AHEAD[1] :]
    each_s = (recent[-1] - recent[0]) / 1e9 / max(len(recent) - 1, 1)
    return max(AHEAD[0], min(AHEAD[1], int(AHEAD_S / each_s) if each_s > 0 else AHEAD[1]))
