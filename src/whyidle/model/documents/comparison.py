"""The comparison document, ``whyidle/comparison/1``: what changed between two diagnoses.

Seconds are per step. ``None`` means not measured.
"""

from __future__ import annotations

from typing import Final, Literal

from whyidle.model.buckets import Bucket
from whyidle.model.diagnosis import Document, State

SCHEMA: Final = "whyidle/comparison/1"
SAME_SIZE: Final = 0.05
"""relative difference up to which steps have the same number of samples: the last batch of an epoch
may be smaller"""


class Side(Document, frozen=True, kw_only=True):
    """One of the two runs."""

    run: str
    sources: list[str]
    state: State
    headline: str
    step_s: float | None
    steps: int
    samples_per_s: float | None = None


class StepChange(Document, frozen=True, kw_only=True):
    """The change of the step time: the ``ratio`` of after to before with its 95 % interval;
    ``real`` if that interval excludes 1."""

    ratio: float
    low: float
    high: float
    real: bool
    method: str


class Change(Document, frozen=True, kw_only=True):
    """One quantity before and after; ``delta_s`` is the difference per step."""

    name: str
    meaning: str
    bucket: Bucket | None
    before_s: float | None
    after_s: float | None
    delta_s: float


class Comparison(Document, frozen=True, kw_only=True):
    """The whole document. Lists are sorted by the size of the change."""

    schema: Literal["whyidle/comparison/1"] = SCHEMA
    before: Side
    after: Side
    step: StepChange | None
    buckets: list[Change]
    reasons: list[Change]
    kernels: list[Change]
    gone: list[str]  # causes found before only
    appeared: list[str]  # causes found after only
    notes: list[str]

    @property
    def times_the_samples(self) -> float:
        """Samples of a step after over those before; 1 where they are alike or not known."""
        rates = (self.before.samples_per_s, self.after.samples_per_s)
        if self.step is None or not rates[0] or not rates[1]:
            return 1.0
        times = self.step.ratio * rates[1] / rates[0]
        return 1.0 if 1 / (1 + SAME_SIZE) <= times <= 1 + SAME_SIZE else times
