"""What came of one case: told by the product, measured by the job itself, kept as one file."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import TypeVar

import msgspec

import emulator
import whyidle
from clinic.card import LATER, WORKLOADS, Case, Mode, Options
from whyidle.store.atomic_write import write_atomic

FORM = 3
"""of the files; results of other forms are made anew"""


Span = tuple[float, float]
"""from when to when something ran, seconds since 1970"""


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """One finding: ``predicted`` is (speed-up, low, high) of each fix that has one."""

    cause: str
    family: str
    bucket: str
    severity: str
    lost: float
    predicted: dict[str, tuple[float, float, float]]

    def best(self, fix: str = "") -> tuple[float, float, float] | None:
        """The prediction of one fix, or else the most that is promised."""
        if fix in self.predicted:
            return self.predicted[fix]
        return max(self.predicted.values(), default=None)


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What rival rules may look at: shares of the step, and settings of the job."""

    attribution: dict[str, float]
    reasons: dict[str, float]
    device: str
    cores: float
    loaders: list[dict[str, object]]
    settings: dict[str, object]
    memory_share: float | None


class Gain(msgspec.Struct, frozen=True):
    """Rates of pairs of runs, samples/s; the sick one first."""

    pairs: list[tuple[float, float]]
    seconds: float = 0.0
    """that all these runs took, the sick ones with the whole cure; 0: not told"""
    span: Span | None = None
    """of all arms together"""

    @property
    def ratio(self) -> float:
        """What the cure brings: the median over pairs."""
        return median(self.ratios)

    @property
    def ratios(self) -> list[float]:
        """Of every pair."""
        return [cured / sick for sick, cured in self.pairs]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Of one case. ``error`` says why there is nothing else."""

    id: str
    mode: Mode
    made: str
    options: Options
    job: str = ""
    """what a timing of it depends on, hashed"""
    product: str = ""
    """the version of the product that was watching, its source hashed"""
    error: str = ""
    state: str = ""
    bound: str | None = None
    device: str = ""
    steps: int = 0
    named: list[Named] = []
    evidence: Evidence | None = None
    gains: dict[str, Gain] = {}
    watched_rate: float | None = None
    overhead_ratio: float | None = None
    truth: dict[str, float] | None = None
    seconds: float = 0.0
    """of watching it"""
    span: Span | None = None
    """of watching it"""

    @property
    def alone_rate(self) -> float | None:
        """Median rate of the sick job without us."""
        gain = self.gains.get("cured")
        return median(sick for sick, _ in gain.pairs) if gain else None


class Results:
    """A folder of outcomes. One that is there under the same key is not made again, and none is
    thrown away but by a newer one under its own key: those by other versions of the product, of
    other seeds and of other machines stay beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, case: Case, mode: Mode) -> Path:
        """Where the outcome is kept."""
        return self.folder / mode / f"{case.id}-{watch_key(case, mode)}.json"

    def load(self, case: Case, mode: Mode, oracle: bool) -> Outcome | None:
        """What is known; None where something is missing, the timing of the cures included if it
        is asked for (it is left out if it is not), or where it failed."""
        found = self._whole(self.path(case, mode))
        return self._timed(case, mode, found) if found and oracle else found

    def latest(self, case: Case, mode: Mode) -> Outcome | None:
        """The newest that is known of the same job by any version of the product, timed or not."""
        paths = (self.folder / mode).glob(f"{case.id}-????????????.json")
        job = oracle_key(case, mode)
        found = [one for path in paths if (one := self._whole(path)) and one.job == job]
        newest = max(found, key=lambda one: one.made, default=None)
        return newest and (self._timed(case, mode, newest) or newest)

    def elsewhere(self, case: Case, mode: Mode) -> Outcome | None:
        """The newest of the same options by any version of the product, on any machine."""
        paths = (self.folder / mode).glob(f"{case.id}-????????????.json")
        found = [one for path in paths if (one := self._whole(path))]
        same = [one for one in found if one.options == case.arm()]
        return max(same, key=lambda one: one.made, default=None)

    def save(self, case: Case, outcome: Outcome, document: bytes) -> None:
        """Keep an outcome, and the whole diagnosis beside it for people to look at."""
        path = self.path(case, outcome.mode)
        path.parent.mkdir(parents=True, exist_ok=True)
        bare = msgspec.structs.replace(outcome, gains={})
        write_atomic(path, msgspec.json.format(msgspec.json.encode(bare), indent=1))
        if document:
            write_atomic(path.with_name(f"{path.stem}.diagnosis.json"), document)

    def _whole(self, path: Path) -> Outcome | None:
        found = _decode(path, Outcome)
        return found if found and not found.error else None

    def _timed(self, case: Case, mode: Mode, found: Outcome) -> Outcome | None:
        """With what its cures bring; None where that is to be measured yet."""
        if not timed(case):
            return found
        gains = self.gains(case, mode)
        return msgspec.structs.replace(found, gains=gains) if gains else None

    def gains(self, case: Case, mode: Mode) -> dict[str, Gain]:
        """What was measured on this machine with this script and these options."""
        return _decode(self._gains(case, mode), dict[str, Gain]) or {}

    def save_gains(self, case: Case, mode: Mode, gains: dict[str, Gain]) -> None:
        """Keep them: they hold until script, options or machine change."""
        path = self._gains(case, mode)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, msgspec.json.encode(gains))

    def _gains(self, case: Case, mode: Mode) -> Path:
        return self.folder / mode / "gains" / f"{case.id}-{oracle_key(case, mode)}.json"


def timed(case: Case) -> bool:
    """Whether its cures can be timed: something is planted that takes time, and of a recording
    there is a twin."""
    if case.recording:
        return bool(case.twin)
    return any(not fault.names & LATER for fault in case.inject)


T = TypeVar("T")


def _decode(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None


def oracle_key(case: Case, mode: Mode) -> str:
    """Changes with whatever a timing depends on."""
    arms = {name: case.arm(cured) for name, cured in case.arms().items()}
    return _hash(FORM, machine(), _script(case), arms, mode, case.budget, case.measure)


def watch_key(case: Case, mode: Mode) -> str:
    """Changes with whatever an outcome depends on, the product's own source included."""
    return _hash(oracle_key(case, mode), product(), case.recording)


def _script(case: Case) -> str:
    path = WORKLOADS / f"{case.workload}.py"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _hash(*things: object) -> str:
    encoded = msgspec.json.encode(things, order="sorted")
    return hashlib.sha256(encoded).hexdigest()[:12]


@lru_cache(maxsize=1)
def product() -> str:
    """A hash of the source of the product and of the emulated device."""
    total = hashlib.sha256()
    for root in (Path(whyidle.__file__).parent, Path(emulator.__file__).parent):
        for path in sorted(root.rglob("*.py")):
            total.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:12]


@lru_cache(maxsize=1)
def machine() -> str:
    """What timings depend on, in one line."""
    try:
        torch = f"PyTorch {version('torch')}"
    except PackageNotFoundError:
        torch = "no PyTorch"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{_processor()}, {cores} cores, Python {platform.python_version()}, {torch}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
