"""The document of one command over its stored runs, ``whyidle/history/1``.

Shares are of the step, 0 to 1; seconds are per step. ``None`` means not measured.
"""

from __future__ import annotations

from typing import Final, Literal

from whyidle.model.diagnosis import Attribution, Device, Document, Interval, State

SCHEMA: Final = "whyidle/history/1"

Kind = Literal["slower", "faster"]


class HistoryRow(Document, frozen=True, kw_only=True):
    """One run, the oldest first. ``busy`` is the share of time in which the device worked. ``kind``
    says that the step is beyond ``expected``, what the earlier runs since the last change let one
    expect; None where too few of them are alike."""

    run: str
    created: str
    command: list[str]
    device: Device
    ranks: int
    framework: str | None
    state: State
    headline: str
    cause: str | None
    step_s: float | None
    p50_s: float | None
    p95_s: float | None
    steps: int
    attribution: Attribution
    busy: float | None
    gpu_util: float | None
    expected: Interval | None = None
    kind: Kind | None = None


class SpeedChange(Document, frozen=True, kw_only=True):
    """The run at which the command became slower or faster. ``earlier`` runs before it are alike;
    ``expected`` is what they let one expect of another run, s. ``confirmed`` is whether the run
    after it is beyond that too: a single run may have had bad luck. ``moved`` is what most of the
    difference is, as (part of the step, s)."""

    run: str
    kind: Kind
    before_s: float
    after_s: float
    expected: Interval
    earlier: int
    confirmed: bool
    moved: tuple[str, float] | None
    cause: str | None  # of the first finding of that run, if the runs before had another


class RunHistory(Document, frozen=True, kw_only=True):
    """The whole document. ``words`` are the words of the command that were asked for."""

    schema: Literal["whyidle/history/1"] = SCHEMA
    whyidle: str  # version
    words: list[str]
    rows: list[HistoryRow]
    changes: list[SpeedChange]
    notes: list[str]
