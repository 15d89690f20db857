"""Whether a fix leaks: memory that grows with every step, and does not without the fix.

The growth of an arm is the slope of what its processes hold over its steps: the median of the
slopes between all pairs of samples (Theil and Sen), which a short peak does not bend. What the fix
adds is told from chance by the scatter of the arms among themselves and of the samples about their
lines. What fills up once (caches, queues, pools) grows ever more slowly, and is no leak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import psutil

from whyidle.engine.trial.arms.arm import ArmResult
from whyidle.engine.trial.arms.process_report import ProcessReport
from whyidle.engine.trial.statistics.alpha_spending import student_quantile
from whyidle.engine.trial.statistics.speedup import warmup_mark

CHANCE = 0.005
"""that what only scatters is taken for a leak"""
LASTING = 0.5
"""a leak grows in the second half of an arm at least this much as fast as in the first"""
FEWEST = 8
"""samples that have a slope"""
DAY_S = 86_400.0
"""a job of unknown length is taken to run for so long"""
PAGE = 4096

Points = Callable[[ArmResult], tuple[list[float], list[float]]]
"""of an arm, steps done and bytes held"""


@dataclass(frozen=True, slots=True)
class MemorySlope:
    """Bytes a step: over an arm, in its halves, and the standard error of the first by the scatter
    about its line."""

    each: float
    early: float
    late: float
    error: float


@dataclass(frozen=True, slots=True)
class MemoryLeak:
    """What a fix adds to memory, bytes a step, at least ``low``; ``steps`` until it is full."""

    where: str
    each: float
    low: float
    steps: float

    def describe_leak(self, step_s: float) -> str:
        """For people, half a sentence."""
        grows = f"{self.where} memory grows by {_format_bytes(self.each)} with every step"
        return f"{grows}: full after {self.steps:.3g} steps, {_format_span(self.steps * step_s)}"


def find_leaks(
    bases: Sequence[ArmResult], treats: Sequence[ArmResult], step_s: float, left: float | None
) -> tuple[MemoryLeak | None, list[MemoryLeak]]:
    """The one that fills memory within the ``left`` steps of the job (None: within a day, at
    ``step_s`` a step), and those that are there but do not."""
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
    if min(map(len, known)) < 2:  # of one arm nobody knows the scatter
        return None
    each, low = _added_slope(*known)
    lasting = all(one.late > LASTING * one.early and one.late > 0 for one in known[1])
    if low <= 0 or not lasting:
        return None
    return MemoryLeak(where, each, low, free / each)


def goes_on(leak: MemoryLeak, ran: ArmResult, after: int) -> bool:
    """Whether a longer arm grows as much beyond so many steps. Workers that come to own what they
    read, or caches that are as large as an epoch, fill up by longer than an arm takes; where that
    cannot be told it is taken for a leak."""
    steps, held = (host_memory if leak.where == "host" else device_memory)(ran)
    beyond = [(step, size) for step, size in zip(steps, held, strict=True) if step > after]
    found = fit_slope([step for step, _ in beyond], [size for _, size in beyond])
    return found is None or found.each > LASTING * leak.each


def _added_slope(
    base: Sequence[MemorySlope], treated: Sequence[MemorySlope]
) -> tuple[float, float]:
    """What the fix adds to the slope, and at least adds."""
    groups = [[one.each for one in base], [one.each for one in treated]]
    free = len(base) + len(treated) - 2
    square = sum((x - fmean(group)) ** 2 for group in groups for x in group) / free
    about = fmean(one.error**2 for one in (*base, *treated))
    sigma = math.sqrt(max(square, about))
    each = fmean(groups[1]) - fmean(groups[0])
    return each, each - student_quantile(CHANCE, free) * sigma * math.sqrt(
        1 / len(base) + 1 / len(treated)
    )


def fit_slope(steps: Sequence[float], held: Sequence[float]) -> MemorySlope | None:
    """Of what is held over the steps; None where that is too little to say."""
    x, y = np.asarray(steps, float), np.asarray(held, float)
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


def host_memory(ran: ArmResult) -> tuple[list[float], list[float]]:
    """What all processes of an arm hold by themselves, over the steps of the first rank, once it
    runs steadily."""
    if ran.told is None or not ran.samples:
        return [], []
    marks = ran.told.marks
    begin, end = marks[warmup_mark(ran.told, len(marks))], marks[-1]
    seen = [sample for sample in ran.samples if begin <= sample.time_ns <= end]
    steps = np.interp([sample.time_ns for sample in seen], marks, range(1, len(marks) + 1))
    return steps.tolist(), [float(sample.own) for sample in seen]


def device_memory(ran: ArmResult) -> tuple[list[float], list[float]]:
    """What tensors take on the device of the rank that holds most at the end."""
    told = [one for one in ran.ranks.values() if one.device]
    if not told:
        return [], []
    most = max(told, key=lambda one: one.device[-1][1])
    first = warmup_mark(most, len(most.marks))
    seen = [(step, held) for step, held in most.device if step > first]
    return [float(step) for step, _ in seen], [float(held) for _, held in seen]


def _device_free(arms: Sequence[ArmResult]) -> float:
    every: list[ProcessReport] = [told for ran in arms for told in ran.ranks.values()]
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
