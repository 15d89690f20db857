"""A search over hyperparameters, ``whyidle/search/1``: its space, its trials and its front.

A trial of a search is one run of the command with one choice of values. Durations are in seconds,
``gpu_hours`` is the duration times the number of GPUs (of one, where the CPU is the device).
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

SCHEMA: Final = "whyidle/search/1"

Value = str | int | float | bool
Values = dict[str, Value]
Direction = Literal["minimize", "maximize"]
Objective = Literal["metric", "rate", "front"]
"""the metric; its improvement per GPU-hour; both the metric and the GPU-hours"""
Ending = Literal["running", "complete", "pruned", "failed", "lost", "interrupted"]
"""``lost``: whyidle itself was killed; ``interrupted``: by the user. Both run again on resume"""
SOURCES: Final = ("json", "report", "tensorboard", "mlflow", "wandb", "csv")
"""prefixes of a metric that is a name"""
AGAIN: Final = ("lost", "interrupted")


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the document's parts."""


class Dimension(_Part, frozen=True, kw_only=True):
    """One hyperparameter: ``choices``, or a range from ``low`` to ``high`` (``whole`` numbers,
    uniform in the logarithm if ``log``) with ``points`` values on a grid. ``env`` dimensions are
    environment variables of the command, not words of it."""

    name: str
    choices: list[Value] = []
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    points: int = 5
    env: bool = False


class Report(_Part, frozen=True, kw_only=True):
    """One value of the metric: the ``step`` is the job's own, or counts the values from 1;
    ``seconds`` since the start of the trial."""

    step: int
    value: float
    seconds: float


class CostForecast(_Part, frozen=True, kw_only=True):
    """The duration of a whole trial, predicted before its start from those that ended before."""

    seconds: float
    low: float
    high: float
    trials: int  # that it is computed from


class TrialVerdict(_Part, frozen=True, kw_only=True):
    """What the recording of a trial says: whether its device waited, and for what."""

    state: str
    headline: str
    cause: str | None
    device: str
    devices: int
    busy: float | None = None
    memory_share: float | None = None  # of the device's memory, at its peak
    step_s: float | None = None
    samples_per_s: float | None = None
    waits: dict[str, float] = {}  # share of the step by bucket, compute left out


class SearchTrial(_Part, frozen=True, kw_only=True):
    """One trial. ``retry_of`` is the trial whose values it runs again; ``beside`` how many trials
    ran at the same time."""

    number: int
    values: Values
    ending: Ending
    metric: float | None = None
    reports: list[Report] = []
    seconds: float | None = None
    gpu_hours: float | None = None
    forecast: CostForecast | None = None
    verdict: TrialVerdict | None = None
    why: str = ""
    retry_of: int | None = None
    beside: int = 1

    @property
    def is_point(self) -> bool:
        """Whether it has a metric and a cost that can be compared."""
        ended = self.ending in ("complete", "pruned")
        return ended and self.metric is not None and self.seconds is not None


class SearchSetup(_Part, frozen=True, kw_only=True):
    """What makes a search the same search: a ledger of another one is refused."""

    command: list[str]
    dimensions: list[Dimension]
    metric: str
    direction: Direction
    objective: Objective = "metric"
    take: Literal["last", "best"] = "last"
    sampler: str = "tpe"
    pruner: str = "median"
    seed: int = 0
    engine: str = "optuna"
    plan: str | None = None  # text of the plan that all trials run with


class Search(_Part, frozen=True, kw_only=True):
    """The whole document. ``best`` is the number of the best trial, ``front`` those that no other
    trial beats in both metric and GPU-hours, cheapest first."""

    schema: Literal["whyidle/search/1"] = SCHEMA
    whyidle: str
    folder: str
    setup: SearchSetup
    trials: list[SearchTrial]
    best: int | None
    front: list[int]
    notes: list[str]


def metric_of(reports: list[Report], setup: SearchSetup) -> float | None:
    """The metric of a trial: the last value, or the best; None without any."""
    values = [report.value for report in reports]
    if not values or setup.take == "last":
        return values[-1] if values else None
    return min(values) if setup.direction == "minimize" else max(values)


def is_better(one: float, other: float, direction: Direction) -> bool:
    """Whether a metric is better than another."""
    return one < other if direction == "minimize" else one > other


def improvement_rate(trial: SearchTrial, start: float, direction: Direction) -> float | None:
    """Improvement of the metric over ``start``, the first value of the search, per GPU-hour."""
    if trial.metric is None or not trial.gpu_hours:
        return None
    sign = 1.0 if direction == "maximize" else -1.0
    return sign * (trial.metric - start) / trial.gpu_hours


def pareto_front(trials: list[SearchTrial], direction: Direction) -> list[int]:
    """The trials that no other one beats in both metric and GPU-hours, cheapest first."""
    sign = 1.0 if direction == "minimize" else -1.0
    points = [t for t in trials if t.is_point and t.gpu_hours is not None]
    points.sort(key=lambda t: (t.gpu_hours or 0.0, sign * (t.metric or 0.0)))
    front: list[SearchTrial] = []
    for trial in points:
        if not front or is_better(trial.metric or 0.0, front[-1].metric or 0.0, direction):
            front.append(trial)
    return [trial.number for trial in front]
