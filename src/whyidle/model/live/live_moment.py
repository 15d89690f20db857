"""The data of the live view."""

from __future__ import annotations

from dataclasses import dataclass, field

from whyidle.model.diagnosis import Diagnosis
from whyidle.model.live.telemetry import Reading


@dataclass(frozen=True, slots=True)
class Moment:
    """The current state of a watched command; None: not known yet."""

    steps: int = 0  # optimizer steps of the process that has made the most
    step_s: float | None = None  # median of the last steps
    trend_s: tuple[float, ...] = ()  # median step time of each of the last seconds, oldest first
    diagnosis: Diagnosis | None = None  # of at most the last half minute
    reading: Reading = field(default_factory=dict)  # last values of telemetry
    cores: float | None = None  # CPU time of the job per second
    changed: str = ""  # what changed, in words
