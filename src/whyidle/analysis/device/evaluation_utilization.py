"""How busy a device was, in all and during evaluations, by telemetry. A read of a GPU's busy share
is a mean over the time since the previous read. A line through *busy share* over *share of
evaluating* gives the utilisation during evaluations, however short. Reads over more time (NVML: up
to a second) flatten the line and bring evaluation closer to training."""

from __future__ import annotations

from math import sqrt

import numpy as np
from msgspec import Struct

from whyidle.analysis.host.telemetry_window import TelemetryWindow, telemetry_of
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.steps.step_detection import StepWindows
from whyidle.model.timeline import Timeline

LEAST_READS = 12
"""a line through fewer is unreliable"""
DOUBT = 0.10
"""a busy share with a larger standard error counts as unknown"""


class EvaluationUtilization(Struct, frozen=True):
    """Shares of time (0-1) with a running kernel."""

    evaluating: float
    """of the evaluation time"""
    error: float
    """standard error of ``evaluating``"""
    all: float
    """of all time"""
    share: float
    """evaluation time of all time"""


def busy_evaluating(
    timeline: Timeline, steps: StepWindows, spans: Intervals
) -> EvaluationUtilization | None:
    """Fit reads of the process's own GPU during the steady steps to its evaluations ``spans``; None
    where they are not sufficient."""
    outside, gpu = _own_gpu(timeline, steps)
    if outside is None or not len(spans):
        return None
    base = timeline.base_ns
    return _fit_utilization(outside, gpu, Intervals(spans.start + base, spans.end + base))


def busy_at_most(timeline: Timeline, steps: StepWindows) -> float:
    """Return the busy share of the steady steps plus two standard errors; 1 where unknown."""
    outside, gpu = _own_gpu(timeline, steps)
    values = outside.read_intervals("busy_ratio", gpu)[2] if outside else np.empty(0)
    if len(values) < LEAST_READS:
        return 1.0
    return min(1.0, float(values.mean() + 2 * values.std(ddof=1) / sqrt(len(values))))


def _own_gpu(timeline: Timeline, steps: StepWindows) -> tuple[TelemetryWindow | None, str]:
    steady = steps.steady
    scope = Intervals(steps.start[steady][:1], steps.end[steady][-1:])
    outside = telemetry_of(timeline, scope)
    gpu = outside.exclusive_gpu if outside else None
    return (outside, gpu) if gpu else (None, "")


def _fit_utilization(
    outside: TelemetryWindow, gpu: str, spans: Intervals
) -> EvaluationUtilization | None:
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
