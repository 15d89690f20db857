"""Numbers read from outside the training process: what a source offers, and what it read.

A value is known by its key, ``signal@subject``: ``cpu_user_s@pid4711``, ``power_w@gpu0``,
``memory_used_bytes@gpu0.pid4711``; a signal of the whole machine stands alone:
``pressure_cpu_some_ratio``. A value is an int, a float, or None where it could not be read this
time: never NaN, never a library's sentinel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Value = int | float | None
Reading = dict[str, Value]
Kind = Literal["gauge", "counter"]
"""gauge: holds for the moment of reading · counter: only grows; differences have a meaning"""
Subject = Literal["machine", "process", "gpu", "gpu process"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """One signal that a source offers.

    Attributes:
        id: what it is called, its unit at the end (``_s``, ``_bytes``, ``_ratio``, ``_w``).
        unit: the unit for people: ``s``, ``bytes``, ``ratio``, ``W``, ``MHz``, ``1``.
        meaning: completes "It is ...".
        subject: what one value belongs to.
        group: meters of one group come from one read, and cost ``cost_us`` once together.
        cost_us: median microseconds of CPU time of that read, for one subject, as measured on the
            machine that the source's docstring names; None where no such device was at hand.
    """

    id: str
    unit: str
    kind: Kind
    meaning: str
    subject: Subject = "machine"
    group: str
    cost_us: float | None


def make_meters(
    group: str,
    cost_us: float | None,
    *signals: tuple[str, str, Kind, str],
    subject: Subject = "machine",
) -> tuple[Meter, ...]:
    """The meters of one read, from (id, unit, kind, meaning) each."""
    return tuple(
        Meter(
            id=name,
            unit=unit,
            kind=kind,
            meaning=meaning,
            subject=subject,
            group=group,
            cost_us=cost_us,
        )
        for name, unit, kind, meaning in signals
    )


@dataclass(frozen=True, slots=True)
class Absent:
    """Not to be had. ``how`` completes "To get it, ..."; empty where nothing would help."""

    reason: str
    how: str = ""


@dataclass(frozen=True, slots=True)
class Available:
    """To be had, but for the signals in ``missing``."""

    missing: Mapping[str, Absent] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is to be watched.

    Attributes:
        pid: the job's first process; its children are watched with it.
        environ: the job's environment, which decides what GPUs it sees.
        recording: a file to replay, for sources that replay.
        root: where the file system begins (tests put another one here).
    """

    pid: int = 0
    environ: Mapping[str, str] = field(default_factory=dict)
    recording: Path | None = None
    root: Path = Path("/")


class Reader(Protocol):
    """An opened source. Used by one thread at a time."""

    @property
    def facts(self) -> Mapping[str, str]:
        """What does not change: names, identities, limits of certainty. Keyed like values."""

    @property
    def missing(self) -> Mapping[str, Absent]:
        """Offered signals that this target does not give, or keys that one subject does not, and
        why. May grow while reading."""

    def read(self) -> Reading:
        """Every value now. One that fails is None and never takes others with it."""

    def close(self) -> None:
        """Give back what was opened. May be called twice."""


class Source(Protocol):
    """What every module of ``whyidle.sources`` is."""

    SIGNALS: tuple[Meter, ...]
    PERIOD_S: float
    LIVE: bool

    def probe(self, target: Target = ..., /) -> Available | Absent:
        """Whether, and how much of it, can be read. Cheap, and leaves nothing open."""

    def open(self, target: Target, /) -> Reader:
        """Begin to read. Raises InputError where ``probe`` says Absent."""


def signal_key(signal: str, subject: str = "") -> str:
    """The key of a signal's value for a subject."""
    return f"{signal}@{subject}" if subject else signal


def split_key(name: str) -> tuple[str, str]:
    """A key's signal and subject; the subject is empty for the machine."""
    signal, _, subject = name.partition("@")
    return signal, subject


CLOCK_REASONS: Final[dict[int, str]] = {
    0x001: "idle",
    0x002: "application clocks",
    0x004: "software power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "hardware power brake",
    0x100: "display clocks",
    0x200: "board limit",
    0x400: "reliability",
}
"""nvmlClocksEventReason* bits, as nvml.h names them"""


def clock_reasons(bits: int) -> tuple[str, ...]:
    """Why the clocks are as they are; a bit that is not known is named by its number."""
    names = [name for bit, name in CLOCK_REASONS.items() if bits & bit]
    rest = bits & ~sum(CLOCK_REASONS)
    return (*names, *([f"{rest:#x}"] if rest else []))


@dataclass(frozen=True, slots=True)
class Series:
    """One key's values in order of time; moments at which it was None are left out.

    ``time_ns`` int64, on the recording's clock; ``value`` float64, of the same length.
    """

    time_ns: NDArray[np.int64]
    value: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Telemetry:
    """A whole recording, by key.

    ``offset_ns`` added to a ``time_ns`` gives nanoseconds of Unix time; None where the recording
    does not say when it was made. ``lost`` counts lines that could not be read.
    """

    series: Mapping[str, Series]
    facts: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, Absent] = field(default_factory=dict)
    offset_ns: int | None = None
    lost: int = 0

    def series_of(self, signal: str) -> dict[str, Series]:
        """A signal's series by subject."""
        found = ((split_key(name), series) for name, series in self.series.items())
        return {subject: series for (one, subject), series in found if one == signal}
