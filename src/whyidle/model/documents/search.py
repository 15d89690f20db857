"""A search over hyperparameters, ``whyidle/search/1``: its space and its trials.

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
    take: Literal["last", "best"] = "last"
    sampler: str = "tpe"
    pruner: str = "median"
    seed: int = 0
    plan: str | None = None  # text of the plan that all trials run with


class Search(_Part, frozen=True, kw_only=True):
    """The whole document. ``best`` is the number of the best whole trial."""

    schema: Literal["whyidle/search/1"] = SCHEMA
    whyidle: str
    folder: str
    setup: SearchSetup
    trials: list[SearchTrial]
    best: int | None
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
