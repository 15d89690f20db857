"""Waiting for an arm's end, however it comes."""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from whyidle.engine.isolation import RoomWatch
from whyidle.engine.trial.arms import orphan_cleanup
from whyidle.engine.trial.arms.lost_ranks import LOST_S, find_lost_ranks
from whyidle.engine.trial.arms.process_report import last_rung, was_stopped
from whyidle.engine.trial.arms.process_tree import ProcessTree

GRACE_S = 3.0
"""after its steps are done a job may end by itself for so long"""
WAIT_S, LOOK_S = 0.02, 0.5
"""so often is seen whether it has ended, and whether all ranks live and there is room to write"""


class RaceCutoff:
    """Whether an arm of a race has fallen behind. ``slowest`` is, by rung, how many seconds a step
    may take; None: it is no race. ``rungs`` are those that it has come to, and its seconds."""

    def __init__(self, recording: Path, slowest: Mapping[int, float] | None) -> None:
        self._recording, self._slowest = recording, slowest
        self.rungs: dict[int, float] = {}
        self.told = False

    def should_stop(self) -> bool:
        """Compare it at the rung that it has come to."""
        found = last_rung(self._recording) if self._slowest is not None else None
        if self._slowest is not None and found is not None and found.number not in self.rungs:
            self.rungs[found.number] = found.step_s
            self.told = found.step_s > self._slowest.get(found.number, math.inf)
        return self.told


class ArmWatchdog:
    """Waits for an arm's end, and looks at its processes meanwhile."""

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
        self._told: float | None = None
        self._lost_at: float | None = None

    def wait_for_end(self) -> int | None:
        """Until it ends, or has told and had its grace (or only shells are left), or its time is
        up, or one rank has left the others waiting, or it is outrun, or a disk is ``full``; None
        where it was ended."""
        begin = time.monotonic()
        while True:
            with suppress(subprocess.TimeoutExpired):
                status = self.child.wait(WAIT_S)
                self.lost = find_lost_ranks(self.recording)
                return status
            now = time.monotonic()
            self.tree.take_sample()
            self._check_progress(now)
            since = begin if self._told is None else None
            limits = ((since, self.patience_s), (self._told, GRACE_S), (self._lost_at, LOST_S))
            if self._told is not None and orphan_cleanup.is_finished(self.child.pid):
                return None
            if self.full or (self._told is None and self.outrun.should_stop()):
                return None
            if any(at is not None and now - at > seconds for at, seconds in limits):
                return None

    def _check_progress(self, now: float) -> None:
        """At what the ranks have told, and at the room that is left."""
        if self._told is None and was_stopped(self.recording):
            self._told = now
        if now - self._looked <= LOOK_S:
            return
        self._looked = now
        self.full = self.stock.describe_shortage()
        if self._told is None:
            self.lost = find_lost_ranks(self.recording)
            self._lost_at = (self._lost_at or now) if self.lost else None
