"""Waiting for an arm's end, however it comes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from whyidle.engine.isolation import Stock
from whyidle.engine.trial import sweep
from whyidle.engine.trial.ranks import LOST_S, lost
from whyidle.engine.trial.told import Rung, rung, stopped
from whyidle.engine.trial.tree import Tree

GRACE_S = 3.0
"""after its steps are done a job may end by itself for so long"""
WAIT_S, LOOK_S = 0.02, 0.5
"""so often is seen whether it has ended, and whether all ranks live and there is room to write"""


GoOn = Callable[[Rung], bool]
"""asked at each rung whether the arm is to go on"""


class Outrun:
    """Whether an arm has been told at a rung not to go on."""

    def __init__(self, recording: Path, go_on: GoOn | None) -> None:
        self._recording, self._go_on = recording, go_on
        self._seen = 0
        self.told = False

    def look(self) -> bool:
        """Ask at each rung that it has come to since."""
        found = rung(self._recording) if self._go_on else None
        if self._go_on and found is not None and found.number > self._seen:
            self._seen = found.number
            self.told = not self._go_on(found)
        return self.told


class Watch:
    """Waits for an arm's end, and looks at its processes meanwhile."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        recording: Path,
        patience_s: float,
        outrun: Outrun,
        stock: Stock,
    ) -> None:
        self.child, self.recording, self.patience_s = child, recording, patience_s
        self.outrun, self.stock = outrun, stock
        self.full = ""
        self.tree = Tree(child.pid)
        self.lost: list[int] = []
        self._looked = 0.0
        self._told: float | None = None
        self._lost_at: float | None = None

    def wait(self) -> int | None:
        """Until it ends, or has told and had its grace (or only shells are left), or its time is
        up, or one rank has left the others waiting, or it is outrun, or a disk is ``full``; None
        where it was ended."""
        begin = time.monotonic()
        while True:
            with suppress(subprocess.TimeoutExpired):
                status = self.child.wait(WAIT_S)
                self.lost = lost(self.recording)
                return status
            now = time.monotonic()
            self.tree.look()
            self._look(now)
            since = begin if self._told is None else None
            limits = ((since, self.patience_s), (self._told, GRACE_S), (self._lost_at, LOST_S))
            if self._told is not None and sweep.over(self.child.pid):
                return None
            if self.full or (self._told is None and self.outrun.look()):
                return None
            if any(at is not None and now - at > seconds for at, seconds in limits):
                return None

    def _look(self, now: float) -> None:
        """At what the ranks have told, and at the room that is left."""
        if self._told is None and stopped(self.recording):
            self._told = now
        if now - self._looked <= LOOK_S:
            return
        self._looked = now
        self.full = self.stock.short()
        if self._told is None:
            self.lost = lost(self.recording)
            self._lost_at = (self._lost_at or now) if self.lost else None
