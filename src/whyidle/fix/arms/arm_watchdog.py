"""Waits for the end of an arm, and stops one that hangs, fell behind or fills the disk."""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from whyidle.fix.arms import orphan_cleanup
from whyidle.fix.arms.lost_ranks import LOST_S, find_lost_ranks
from whyidle.fix.arms.process_report import last_rung, was_stopped
from whyidle.fix.arms.process_tree import ProcessTree
from whyidle.fix.isolation import RoomWatch

GRACE_S = 3.0  # time for a job to exit after its last step
WAIT_S, LOOK_S = 0.02, 0.5  # interval of checks for the end, and of checks of ranks and disk space


class RaceCutoff:
    """Decides whether an arm of a race has fallen behind: ``slowest`` maps rungs to the most
    seconds of a step (None: no race)."""

    def __init__(self, recording: Path, slowest: Mapping[int, float] | None) -> None:
        self._recording, self._slowest = recording, slowest
        self.rungs: dict[int, float] = {}
        self.is_outrun = False

    def should_stop(self) -> bool:
        """Compare the arm at the rung that it has reached."""
        found = last_rung(self._recording) if self._slowest is not None else None
        if self._slowest is not None and found is not None and found.number not in self.rungs:
            self.rungs[found.number] = found.step_s
            self.is_outrun = found.step_s > self._slowest.get(found.number, math.inf)
        return self.is_outrun


class ArmWatchdog:
    """Waits for the end of an arm, and samples its processes."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        recording: Path,
        patience_s: float,
        outrun: RaceCutoff,
        stock: RoomWatch,
    ) -> None:
        self.child, self.recording, self.patience_s = child, recording, patience_s
        self.outrun, self.stock = outrun, stock
        self.full = ""
        self.tree = ProcessTree(child.pid)
        self.lost: list[int] = []
        self._looked = 0.0
        self._stop_asked_at: float | None = None
        self._lost_at: float | None = None

    def wait_for_end(self) -> int | None:
        """Return the exit status; None if the arm has to be stopped.

        That is the case after its report and a grace period (at once if only shells are left), at
        its time limit, if a rank died, if it fell behind in a race, or if a disk is ``full``.
        """
        begin = time.monotonic()
        while True:
            with suppress(subprocess.TimeoutExpired):
                status = self.child.wait(WAIT_S)
                self.lost = find_lost_ranks(self.recording)
                return status
            now = time.monotonic()
            self.tree.take_sample()
            self._check_progress(now)
            since = begin if self._stop_asked_at is None else None
            limits = (
                (since, self.patience_s),
                (self._stop_asked_at, GRACE_S),
                (self._lost_at, LOST_S),
            )
            if self._stop_asked_at is not None and orphan_cleanup.is_finished(self.child.pid):
                return None
            if self.full or (self._stop_asked_at is None and self.outrun.should_stop()):
                return None
            if any(at is not None and now - at > seconds for at, seconds in limits):
                return None

    def _check_progress(self, now: float) -> None:
        if self._stop_asked_at is None and was_stopped(self.recording):
            self._stop_asked_at = now
        if now - self._looked <= LOOK_S:
            return
        self._looked = now
        self.full = self.stock.describe_shortage()
        if self._stop_asked_at is None:
            self.lost = find_lost_ranks(self.recording)
            self._lost_at = (self._lost_at or now) if self.lost else None
