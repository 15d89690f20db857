"""Detects memory leaks: memory that grows with every step with the fix, and not without it.

The growth of an arm is the Theil-Sen slope of its memory over its steps, which is robust against
short peaks. The additional slope of the fix must exceed the variation between arms and the scatter
of the samples about their lines. Caches, queues and pools grow ever more slowly and are no leak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import psutil

from whyidle.fix.arms.arm import ArmResult
from whyidle.fix.arms.process_report import ProcessReport
from whyidle.fix.statistics.alpha_spending import CHANCE, student_quantile
from whyidle.fix.statistics.speedup import warmup_mark

LASTING = 0.5  # least slope in the second half of an arm, relative to the first, for a leak
FEWEST = 8  # samples needed for a slope
DAY_S = 86_400.0  # assumed duration of a job of unknown length
PAGE = 4096

Points = Callable[[ArmResult], tuple[list[float], list[float]]]
"""reads steps done and bytes used from an arm"""


@dataclass(frozen=True, slots=True)
class MemorySlope:
    """Memory growth, bytes per step."""

    each: float
    early: float  # in the first half
    late: float  # in the second half
    error: float  # standard error of ``each``


@dataclass(frozen=True, slots=True)
class MemoryLeak:
    """Additional memory growth, bytes per step, at least ``low``; full after ``steps``."""

    where: str
    each: float
    low: float
    steps: float

    def describe_leak(self, step_s: float) -> str:
        """Describe the leak, as half a sentence."""
        grows = f"{self.where} memory grows by {_format_bytes(self.each)} per step"
        return f"{grows}: full after {self.steps:.3g} steps, {_format_span(self.steps * step_s)}"


def find_leaks(
    bases: Sequence[ArmResult], treats: Sequence[ArmResult], step_s: float, left: float | None
) -> tuple[MemoryLeak | None, list[MemoryLeak]]:
    """Find the leak that fills memory within ``left`` steps (None: a day), and slower ones."""
    horizon = DAY_S / step_s if left is None else left
    free = {"host": float(psutil.virtual_memory().available), "device": _device_free(treats)}
    found = [
        leak
        for where, points in (("host", host_memory), ("device", device_memory))
        if (leak := _find_leak(where, points, (bases, treats), free[where])) is not None
    ]
    soon = [leak for leak in found if leak.steps < horizon]
    return next(iter(soon), None), [leak for leak in found if leak not in soon]


def _find_leak(
    where: str, points: Points, arms: tuple[Sequence[ArmResult], Sequence[ArmResult]], free: float
) -> MemoryLeak | None:
    base, treated = ([fit_slope(*points(ran)) for ran in group] for group in arms)
    known = [[one for one in group if one is not None] for group in (base, treated)]
    if min(map(len, known)) < 2:  # one arm has no scatter
        return None
    each, low = _added_slope(*known)
    lasting = all(one.late > LASTING * one.early and one.late > 0 for one in known[1])
    if low <= 0 or not lasting:
        return None
    return MemoryLeak(where, each, low, free / each)


def goes_on(leak: MemoryLeak, arm: ArmResult, after: int) -> bool:
    """Whether memory keeps growing in a longer arm beyond ``after`` steps; True if unknown. Caches
    of an epoch, or pages copied by workers, may take longer to fill than an arm lasts."""
    steps, memory = (host_memory if leak.where == "host" else device_memory)(arm)
    beyond = [(step, size) for step, size in zip(steps, memory, strict=True) if step > after]
    slope = fit_slope([step for step, _ in beyond], [size for _, size in beyond])
    return slope is None or slope.each > LASTING * leak.each


def _added_slope(
    base: Sequence[MemorySlope], treated: Sequence[MemorySlope]
) -> tuple[float, float]:
    groups = [[one.each for one in base], [one.each for one in treated]]
    free = len(base) + len(treated) - 2
    square = sum((x - fmean(group)) ** 2 for group in groups for x in group) / free
    about = fmean(one.error**2 for one in (*base, *treated))
    sigma = math.sqrt(max(square, about))
    each = fmean(groups[1]) - fmean(groups[0])
    return each, each - student_quantile(CHANCE, free) * sigma * math.sqrt(
        1 / len(base) + 1 / len(treated)
    )


def fit_slope(steps: Sequence[float], memory: Sequence[float]) -> MemorySlope | None:
    """Fit the slope of memory over steps; None with too few samples."""
    x, y = np.asarray(steps, float), np.asarray(memory, float)
    if len(x) < FEWEST or x[-1] <= x[0]:
        return None
    each, middle = _theil_sen(x, y), len(x) // 2
    about = y - each * x
    scatter = max(1.4826 * float(np.median(np.abs(about - np.median(about)))), PAGE)
    error = scatter / math.sqrt(float(np.sum((x - x.mean()) ** 2)))
    early, late = _theil_sen(x[:middle], y[:middle]), _theil_sen(x[middle:], y[middle:])
    return MemorySlope(each, early, late, error)


def _theil_sen(x: np.ndarray, y: np.ndarray) -> float:
    one, another = np.triu_indices(len(x), 1)
    apart = x[another] - x[one]
    known = apart > 0
    return float(np.median((y[another] - y[one])[known] / apart[known])) if known.any() else 0.0


def host_memory(arm: ArmResult) -> tuple[list[float], list[float]]:
    """Private memory of all processes over the steady steps of the first rank."""
    if arm.report is None or not arm.samples:
        return [], []
    marks = arm.report.marks
    begin, end = marks[warmup_mark(arm.report, len(marks))], marks[-1]
    selected = [sample for sample in arm.samples if begin <= sample.time_ns <= end]
    steps = np.interp([sample.time_ns for sample in selected], marks, range(1, len(marks) + 1))
    return steps.tolist(), [float(sample.own) for sample in selected]


def device_memory(arm: ArmResult) -> tuple[list[float], list[float]]:
    """Memory of tensors on the fullest device, over the steady steps of its rank."""
    reports = [one for one in arm.ranks.values() if one.device]
    if not reports:
        return [], []
    most = max(reports, key=lambda one: one.device[-1][1])
    first = warmup_mark(most, len(most.marks))
    selected = [(step, held) for step, held in most.device if step > first]
    return [float(step) for step, _ in selected], [float(held) for _, held in selected]


def _device_free(arms: Sequence[ArmResult]) -> float:
    every: list[ProcessReport] = [report for ran in arms for report in ran.ranks.values()]
    return min((float(one.device_free) for one in every if one.device_free), default=math.inf)


def _format_bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"


def _format_span(seconds: float) -> str:
    for unit, size in (("days", DAY_S), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
