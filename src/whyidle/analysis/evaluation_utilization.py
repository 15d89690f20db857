"""How busy a device was, and while its host evaluated, of which no marks tell: read from outside.

A read of a GPU's busy share is a mean over the time since the one before it, in some of which the
host was evaluating. Over many reads a line through *busy share* by *share of evaluating* gives how
busy the device is while the host evaluates, however short evaluations are, as long as some reads
hold more of them than others do. Reads that cover more than that time (NVML's are means of up to
a second) flatten the line: evaluating is then taken for more like training than it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from whyidle.analysis.intervals import Intervals
from whyidle.analysis.step_detection import StepWindows
from whyidle.analysis.telemetry_window import TelemetryWindow, outside_of
from whyidle.model.timeline import Timeline

LEAST_READS = 12
"""a line through fewer says little"""
DOUBT = 0.10
"""a busy share whose standard error is larger is not known"""


@dataclass(frozen=True, slots=True)
class EvaluationUtilization:
    """Shares of time (0-1). A kernel ran in ``evaluating`` of the time in which the host was, give
    or take the standard ``error``, and in ``all`` of all the time; it was for a ``share`` of it."""

    evaluating: float
    error: float
    all: float
    share: float


def busy_evaluating(
    timeline: Timeline, steps: StepWindows, spans: Intervals
) -> EvaluationUtilization | None:
    """What reads of the process's own GPU tell; None where they do not.

    Args:
        timeline: of a watched process, with what was read beside it.
        steps: of it; reads outside the steady ones do not count.
        spans: when its host evaluated.
    """
    outside, gpu = _own_gpu(timeline, steps)
    if outside is None or not len(spans):
        return None
    base = timeline.base_ns
    return _fit_utilization(outside, gpu, Intervals(spans.start + base, spans.end + base))


def busy_at_most(timeline: Timeline, steps: StepWindows) -> float:
    """Share of the steady steps in which a kernel ran, two standard errors above the mean of the
    reads; 1 where too few were made, or of a GPU that the process shares."""
    outside, gpu = _own_gpu(timeline, steps)
    values = outside.read_intervals("busy_ratio", gpu)[2] if outside else np.empty(0)
    if len(values) < LEAST_READS:
        return 1.0
    return min(1.0, float(values.mean() + 2 * values.std(ddof=1) / sqrt(len(values))))


def _own_gpu(timeline: Timeline, steps: StepWindows) -> tuple[TelemetryWindow | None, str]:
    """What was read during the steady steps, if the process has a GPU to itself, and which."""
    steady = steps.steady
    scope = Intervals(steps.start[steady][:1], steps.end[steady][-1:])
    outside = outside_of(timeline, scope)
    gpu = outside.exclusive_gpu if outside else None
    return (outside, gpu) if gpu else (None, "")


def _fit_utilization(
    outside: TelemetryWindow, gpu: str, spans: Intervals
) -> EvaluationUtilization | None:
    """Least squares, each read of equal weight."""
    begin, end, busy = outside.read_intervals("busy_ratio", gpu)
    if len(busy) < LEAST_READS:
        return None
    inside = spans.length_inside(begin, end) / np.maximum(end - begin, 1)
    apart = inside - inside.mean()
    spread = float(apart @ apart)
    if not spread:
        return None
    slope = float(apart @ busy) / spread
    rest = busy - busy.mean() - slope * apart
    ahead = 1.0 - float(inside.mean())
    noise = float(rest @ rest) / (len(busy) - 2)
    error = sqrt(noise * (1 / len(busy) + ahead * ahead / spread))
    if error > DOUBT:
        return None
    level = float(np.clip(busy.mean() + slope * ahead, 0.0, 1.0))
    return EvaluationUtilization(level, error, float(busy.mean()), 1.0 - ahead)
