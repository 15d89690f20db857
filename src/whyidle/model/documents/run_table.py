"""The document of several runs side by side, ``whyidle/run-table/1``.

Shares are of the step, 0 to 1; seconds are per step. ``None`` means not measured.
"""

from __future__ import annotations

from typing import Final, Literal

from whyidle.model.diagnosis import Attribution, Device, Document, Place, State
from whyidle.model.documents.comparison import Comparison, StepChange

SCHEMA: Final = "whyidle/run-table/1"


class RunRow(Document, frozen=True, kw_only=True):
    """One run. ``first_step_s`` is the first step of a watched command, compilation included;
    ``step_s`` the mean of its steady steps, ``p50_s`` and ``p95_s`` their spread; ``host_s`` what
    Python and the framework take of a step; ``change`` its step time against the baseline's."""

    name: str
    run: str
    sources: list[str]
    folder: str | None
    framework: str | None
    device: Device
    state: State
    headline: str
    cause: str | None
    finding: str
    where: Place | None
    first_step_s: float | None
    step_s: float | None
    p50_s: float | None
    p95_s: float | None
    steps: int
    samples_per_s: float | None
    host_memory_peak_bytes: int | None
    device_memory_peak_bytes: int | None
    attribution: Attribution
    host_s: float | None
    change: StepChange | None
    step_times_s: list[float]  # of steady steps

    @property
    def samples_per_step(self) -> float | None:
        """Samples in a step."""
        if self.step_s is None or self.samples_per_s is None:
            return None
        return self.step_s * self.samples_per_s


class RunTable(Document, frozen=True, kw_only=True):
    """The whole document. ``baseline`` is the name of the run that the others are compared with,
    ``comparisons`` one comparison for each other run, in the order of ``runs``."""

    schema: Literal["whyidle/run-table/1"] = SCHEMA
    whyidle: str  # version
    baseline: str
    runs: list[RunRow]
    comparisons: list[Comparison]
    notes: list[str]
