"""Telemetry: numbers that sources read from outside the training process.

The key of a value is ``signal@subject``, such as ``cpu_user_s@pid4711``, ``power_w@gpu0`` or
``memory_used_bytes@gpu0.pid4711``; a signal of the whole machine has no subject. A value is an int,
a float, or None if the read failed: never NaN, never a library's sentinel.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from msgspec import Struct, field

if TYPE_CHECKING:  # importing it would double the memory of `whyidle watch`
    import numpy as np
    from numpy.typing import NDArray

Value = int | float | None
Reading = dict[str, Value]
Kind = Literal["gauge", "counter"]
"""gauge: current value · counter: only grows, so that differences are used"""
Subject = Literal["machine", "process", "gpu", "gpu process"]
OWN_SHARE: Final = 0.01
"""share of a core that reading beside a job may take"""


class Meter(Struct, frozen=True, kw_only=True):
    """One signal that a source offers."""

    id: str  # ends with its unit (``_s``, ``_bytes``, ``_ratio``, ``_w``)
    unit: str  # for people: ``s``, ``bytes``, ``ratio``, ``W``, ``MHz``, ``1``
    kind: Kind
    meaning: str  # completes "It is ..."
    subject: Subject = "machine"
    group: str  # meters of a group share one read
    cost_us: float | None
    """median CPU time of that read for one subject, us, on the machine that the source's docstring
    names; None: not measured"""


def make_meters(
    group: str,
    cost_us: float | None,
    *signals: tuple[str, str, Kind, str],
    subject: Subject = "machine",
) -> tuple[Meter, ...]:
    """The meters of one read, from (id, unit, kind, meaning) each."""
    shared: dict[str, Any] = {"subject": subject, "group": group, "cost_us": cost_us}
    return tuple(
        Meter(id=name, unit=unit, kind=kind, meaning=meaning, **shared)
        for name, unit, kind, meaning in signals
    )


class Absent(Struct, frozen=True):
    """Not available. ``how`` completes "To record it, ..."; empty if there is no way."""

    reason: str
    how: str = ""


class Available(Struct, frozen=True):
    """Available, except the signals in ``missing``."""

    missing: Mapping[str, Absent] = field(default_factory=dict)


class Target(Struct, frozen=True, kw_only=True):
    """The job that a source reads."""

    pid: int = 0  # first process of the job; its children belong to it
    environ: Mapping[str, str] = field(default_factory=dict)  # decides which GPUs the job sees
    root: Path = Path("/")  # root of the file system, for tests
    whole_machine: bool = False  # every GPU and MIG slice, whatever the environment says


class Reader(Protocol):
    """An open source, for one thread at a time."""

    @property
    def facts(self) -> Mapping[str, str]:
        """Constants, such as names and identities, by key."""

    @property
    def missing(self) -> Mapping[str, Absent]:
        """Signals or keys that this target lacks, and the reasons. May grow while reading."""

    def read(self) -> Reading:
        """Read every value; one that fails is None and does not affect others."""

    def close(self) -> None:
        """Release all resources. May be called twice."""


class Source(Protocol):
    """The interface of every module in ``whyidle.sources``."""

    SIGNALS: tuple[Meter, ...]
    PERIOD_S: float

    def probe(self, target: Target = ..., /) -> Available | Absent:
        """Check what can be read. Cheap; leaves nothing open."""

    def open(self, target: Target, /) -> Reader:
        """Open the source. Raises InputError if ``probe`` returns Absent."""


def signal_key(signal: str, subject: str = "") -> str:
    """The key of a signal for a subject."""
    return f"{signal}@{subject}" if subject else signal


def split_key(name: str) -> tuple[str, str]:
    """Split a key into signal and subject (empty for the machine)."""
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
"""nvmlClocksEventReason* bits, as named in nvml.h"""


def clock_reasons(bits: int) -> tuple[str, ...]:
    """Name the clock event reasons of a bit mask; unknown bits by their number."""
    names = [name for bit, name in CLOCK_REASONS.items() if bits & bit]
    rest = bits & ~sum(CLOCK_REASONS)
    return (*names, *([f"{rest:#x}"] if rest else []))


class Series(Struct, frozen=True):
    """The values of one key in order of time, without None."""

    time_ns: NDArray[np.int64]  # on the recording's clock
    value: NDArray[np.float64]


class Telemetry(Struct, frozen=True):
    """A whole recording, by key."""

    series: Mapping[str, Series]
    facts: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, Absent] = field(default_factory=dict)
    offset_ns: int | None = None  # Unix time minus ``time_ns``
    lost: int = 0  # lines that could not be read

    def series_of(self, signal: str) -> dict[str, Series]:
        """The series of a signal by subject."""
        keyed = ((split_key(key), series) for key, series in self.series.items())
        return {subject: series for (name, subject), series in keyed if name == signal}
