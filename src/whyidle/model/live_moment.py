"""What a live view shows of a command that is being watched."""

from __future__ import annotations

from dataclasses import dataclass, field

from whyidle.model.diagnosis import Diagnosis
from whyidle.model.telemetry import Reading


@dataclass(frozen=True, slots=True)
class Moment:
    """A training command as it is now; None = not known yet.

    Attributes:
        steps: optimizer steps so far, of the process that has made the most.
        step_s: median length of the last steps.
        trend_s: median step length of each of the last seconds, oldest first.
        diagnosis: of the last half minute at most.
        reading: the last value of everything that is read from outside.
        cores: cores' worth of CPU time that the job takes.
        changed: what is different from before, in words; empty where nothing is.
    """

    steps: int = 0
    step_s: float | None = None
    trend_s: tuple[float, ...] = ()
    diagnosis: Diagnosis | None = None
    reading: Reading = field(default_factory=dict)
    cores: float | None = None
    changed: str = ""
