"""How many trials run side by side: as many as the measured load of the machine allows.

The first trial runs alone. From the cores that it used, its memory and the share of time that its
device was busy follows how many fit; they are tried, and where they do not finish faster together
than one after another the search goes back to one. Each gets its part of the cores in threads: two
trials with default threads do less work than one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from statistics import median

import psutil

from whyidle.model.search import SearchTrial

MOST = 8
"""trials side by side: beyond, one disk and one memory bus are shared by too many to predict"""
SPARE = 0.9
"""part of memory, cores and device that trials may take together"""


class TrialRoom:
    """The room for trials; ``fixed`` as the user says, else as measured."""

    def __init__(self, fixed: int | None, tell: Callable[[str], None]) -> None:
        self.count = fixed or 1
        self._measures = fixed is None
        self._tell = tell
        self._cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        self._cpu_s, self._busy_s = used_cpu_s(), machine_cpu_s()
        self._alone: list[float] = []
        self._together: list[float] = []

    @property
    def threads(self) -> int | None:
        """Threads of one trial; None leaves the default."""
        return max(self._cores // self.count, 1) if self.count > 1 else None

    def note_end(self, trial: SearchTrial) -> None:
        """Take a trial that has ended into account."""
        if not self._measures or trial.ending != "complete" or not trial.seconds:
            return
        paces = self._alone if trial.beside == 1 else self._together
        paces.append(trial.seconds / len(trial.reports))
        if self.count == 1 and not self._together:
            cpu_s = used_cpu_s() - self._cpu_s
            self._choose_count(trial, cpu_s, machine_cpu_s() - self._busy_s - cpu_s)
        elif self.count > 1 and len(self._together) >= self.count:
            self._check_gain()
        self._cpu_s, self._busy_s = used_cpu_s(), machine_cpu_s()

    def _choose_count(self, trial: SearchTrial, cpu_s: float, others_s: float) -> None:
        """Beside other programs a trial uses less than it would, and their cores are not free."""
        seconds = trial.seconds or 1.0
        cores, others = max(cpu_s / seconds, 0.05), max(others_s / seconds, 0.0)
        free = self._cores - others * self._cores / (os.cpu_count() or 1)
        rooms = {"cores": SPARE * free / cores}
        if memory := psutil.virtual_memory().available:
            rooms["memory"] = 1.0 + SPARE * memory / max(largest_child_bytes(), 1)
        verdict = trial.verdict
        if verdict is not None and verdict.device != "cpu":
            rooms["the device"] = SPARE / max(verdict.busy or 1.0, 0.01)
            rooms["device memory"] = SPARE / max(verdict.memory_share or 1.0, 0.01)
        limit = min(rooms, key=lambda name: rooms[name])
        self.count = max(1, min(int(rooms[limit]), MOST))
        usage = f"a trial uses {cores:.1f} of {self._cores} cores"
        usage += f", other programs {others:.1f}" if others >= 0.5 else ""
        if self.count > 1:
            self._tell(f"{usage}: {self.count} side by side, {self.threads} threads each")
        else:
            self._tell(f"{usage}: one at a time ({limit} allow no more); --parallel N for others")
            self._measures = False

    def _check_gain(self) -> None:
        slower = median(self._together) / median(self._alone)
        self._measures = False
        if slower < self.count:
            self._tell(f"{self.count} side by side do the work of {self.count / slower:.1f}")
        else:
            self._tell(f"{slower:.1f} times slower each, {self.count} side by side: one at a time")
            self.count = 1


def used_cpu_s() -> float:
    """CPU time of all trials that have ended, with their processes."""
    times = os.times()
    return times.children_user + times.children_system


def machine_cpu_s() -> float:
    """CPU time of all programs of the machine."""
    times = psutil.cpu_times()
    return times.user + times.system + getattr(times, "nice", 0.0)


def largest_child_bytes() -> int:
    """Resident memory of the largest process of the trials that have ended."""
    import resource  # noqa: PLC0415  # not on every system

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
