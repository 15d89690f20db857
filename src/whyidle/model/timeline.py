"""The recording of one process as columns: the ``Timeline``.

Times are integer nanoseconds since ``base_ns``, on a clock that the ranks of a host share or that
``analysis.ranks`` aligns. Columns are read-only numpy arrays sorted by start. A missing number is
-1 in integer columns and nan in float columns, and never leaves the analysis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.model.device_timestamps import EMPTY
from whyidle.model.event_kinds import Detail as Detail  # noqa: PLC0414  # part of a timeline
from whyidle.model.event_kinds import DeviceKind as DeviceKind  # noqa: PLC0414  # part of a timeline
from whyidle.model.event_kinds import HostKind as HostKind  # noqa: PLC0414  # part of a timeline
from whyidle.model.live.telemetry import Telemetry
from whyidle.model.loader_tables import Loading
from whyidle.model.operators import Operator
from whyidle.model.process_facts import (
    BurstInRun,
    KeptLoss,
    LifePhases,
    ProcessFacts,
    Stepless,
)
from whyidle.model.roles import IMPLIED, Role, Vocabulary
from whyidle.model.signals import FACTS
from whyidle.model.stack_samples import StackSamples

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
F64 = NDArray[np.float64]
F32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class HostEvents:
    """Events on host threads. ``name``, ``thread`` and ``detail`` (-1: none) index columns of the
    ``Timeline``; ``corr`` is the correlation id (-1: none)."""

    start: I64
    end: I64
    kind: NDArray[np.uint8]
    name: I32
    thread: NDArray[np.int16]
    corr: I64
    detail: I32

    @classmethod
    def from_columns(cls, start: I64, end: I64, **columns: Any) -> HostEvents:
        """Make events from columns, or one value for all rows; ``corr`` and ``detail`` default to
        none."""
        values = {"start": start, "end": end, "corr": -1, "detail": -1, **columns}
        types = (np.int64, np.int64, np.uint8, np.int32, np.int16, np.int64, np.int32)
        typed = zip(cls.__slots__, types, strict=True)
        return cls(*(np.full(len(start), values[column], dtype) for column, dtype in typed))

    def __len__(self) -> int:
        return len(self.start)

    def join(self, *others: HostEvents) -> HostEvents:
        """Merge with other events, sorted by start, the longest first."""
        parts = (self, *others)
        joined = (np.concatenate([getattr(p, column) for p in parts]) for column in self.__slots__)
        return (events := HostEvents(*joined)).take_rows(np.lexsort((-events.end, events.start)))

    def take_rows(self, rows: NDArray[Any]) -> HostEvents:
        """Select rows by indices or mask."""
        return HostEvents(*(getattr(self, column)[rows] for column in self.__slots__))


@dataclass(frozen=True, slots=True, eq=False)
class DeviceEvents:
    """Events on device streams. ``size`` is in bytes (-1: unknown), ``occupancy`` (0-1) is an
    estimate of the profiler."""

    start: I64
    end: I64
    kind: NDArray[np.uint8]
    name: I32
    device: NDArray[np.int16]
    stream: I64
    corr: I64
    size: I64
    blocks_per_sm: F32
    occupancy: F32
    detail: I32

    def __len__(self) -> int:
        return len(self.start)

    def take_rows(self, rows: NDArray[Any]) -> DeviceEvents:
        """Select rows by indices or mask."""
        return DeviceEvents(*(getattr(self, column)[rows] for column in self.__slots__))


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """The accelerator; None: not recorded."""

    kind: str = "cpu"
    name: str | None = None
    count: int = 0
    memory_bytes: int | None = None
    sm_count: int | None = None
    capability: tuple[int, int] | None = None
    peaks: tuple[float, float, float, float, float] | None = None
    """FLOP/s in fp32, tf32, fp16 and bf16, and bytes/s of memory"""


@dataclass(frozen=True, slots=True, eq=False)
class MemorySamples:
    """Device memory after each allocator event, in bytes."""

    time: I64
    allocated: I64
    reserved: I64


@dataclass(frozen=True, slots=True, eq=False)
class CpuPace:
    """CPU time of the training thread and its time waiting for a core, ns, at the end of each
    gradient exchange."""

    time: I64
    ran: I64
    queued: I64


@dataclass(frozen=True, slots=True)
class InputStage:
    """The slowest stage of an input pipeline."""

    name: str
    seconds: float  # per batch
    parallel: int | None = None  # calls at a time
    function: str = ""  # the operator that takes most of its function's time
    function_s: float = 0.0  # per call


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of a timeline, and what was lost in reading it."""

    path: str
    format: str
    events: int = 0
    bytes: int = 0
    notes: tuple[str, ...] = ()
    lost: str | None = None
    origin_ns: int = 0  # time on the file's clock at the timeline's 0
    input_stage: InputStage | None = None

    @property
    def display_path(self) -> str:
        """The path as text; bytes that are not UTF-8 are escaped."""
        return self.path.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True, eq=False)
class StackSampleWeights:
    """Stack samples as a random sample of time."""

    time: I64
    phase: I64  # phase of the step, whose length is known from recorded calls
    weight: F64  # time that a sample represents, ns
    unsure: NDArray[np.bool_]  # short stretches of Python that were counted as operators
    own: NDArray[np.bool_]  # whether the sample shows its own stack


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """The recording of one process."""

    names: tuple[str, ...]
    details: tuple[Detail, ...]
    threads: tuple[str, ...]
    host: HostEvents
    device: DeviceEvents
    memory: MemorySamples
    source: Source
    base_ns: int = 0
    info: DeviceInfo = field(default_factory=DeviceInfo)
    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    hostname: str | None = None
    framework: str | None = None
    cut: bool = False  # whether the file was truncated
    process: ProcessFacts = field(default_factory=ProcessFacts)
    phases: LifePhases = field(default_factory=LifePhases)
    kept_losses: tuple[KeptLoss, ...] = ()  # lines that keep a loss of every step
    stepless: Stepless | None = None  # of a command without training steps
    burst: BurstInRun | None = None  # the steps that it records, if it is a burst
    loading: Loading = field(default_factory=Loading)
    pace: CpuPace | None = None  # of a rank on a CPU
    telemetry: Telemetry | None = None  # on the clock of ``base_ns``
    marks: NDArray[Any] = field(default_factory=lambda: EMPTY)  # as ``model.marks.MARK``
    stack_samples: StackSamples | None = None
    """as recorded; None: none, or already interpreted by ``analysis.sampling``"""
    sources: Mapping[str, str] = field(default_factory=dict)
    """the user's files that its stacks name -> their text when the process ended"""
    looks: StackSampleWeights | None = None  # of stack samples at random moments
    disturbed: tuple[tuple[int, int], ...] = ()
    """intervals in which the measurement slowed the process; their steps do not count"""
    bursts: tuple[Timeline, ...] = ()  # each on its own clock
    others: tuple[Timeline, ...] = ()  # of further processes in the same file
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    roles: tuple[str, ...] = ()
    """role of each name, as the process recorded it; empty or missing: the vocabulary decides"""
    _found: dict[Any, I64] = field(default_factory=dict, init=False, repr=False)

    def names_of(self, role: Role, *kinds: HostKind) -> I64:
        """Names of host events with a role, and of some ``kinds`` if given, as indices."""
        rows = self.rows_of(role)
        if kinds:
            rows = rows[np.isin(self.host.kind[rows], kinds)]
        return np.flatnonzero(np.bincount(self.host.name[rows]))

    def rows_of(self, role: Role) -> I64:
        """Rows of the host events with a role. Each name is matched once."""
        if role not in self._found:
            played = np.zeros((len(HostKind), len(self.names)), dtype=bool)
            recorded = [IMPLIED.get(name) for name in self.roles]
            for i, roles in enumerate(recorded):
                played[:, i] = roles is not None and role in roles
            for kinds, pattern in self.vocabulary.matchers(role):
                for kind in kinds or HostKind:
                    for i in self._names_by_kind(HostKind(kind)):
                        if i >= len(recorded) or recorded[i] is None:
                            played[kind, i] |= bool(pattern.search(self.names[i]))
            mask = np.take(played, self._codes) if played.any() else ()
            self._found[role] = np.flatnonzero(mask)
        return self._found[role]

    def plays(self, role: Role, name: int) -> bool:
        """Whether a name, by its index, has a role, for events of any kind."""
        recorded = self.roles[name] if name < len(self.roles) else ""
        return self.vocabulary.plays(role, self.names[name], recorded)

    def has_role(self, events: HostEvents, *roles: Role) -> NDArray[np.bool_]:
        """Mask of the host events whose names have one of some roles, for events of any kind."""
        matches = [any(self.plays(role, i) for role in roles) for i in range(len(self.names))]
        mask: NDArray[np.bool_] = np.array([*matches, False], dtype=bool)[events.name]
        return mask

    def label(self, role: Role, name: int) -> str:
        """The label in a name with a role, such as the class of an optimizer; empty if none."""
        return self.vocabulary.parts(role, self.names[name]).get("label", "")

    def operator(self, name: int) -> Operator:
        """The properties of an operator, by the index of its name."""
        return self.vocabulary.operator(self.names[name])

    @property
    def _codes(self) -> I64:
        """Kind and name of each host event, as one index."""
        if "codes" not in self._found:
            kinds = self.host.kind.astype(np.int64) * len(self.names)
            self._found["codes"] = kinds + self.host.name
        return self._found["codes"]

    def _names_by_kind(self, kind: HostKind) -> I64:
        if kind not in self._found:
            names = self.host.name[self.host.kind == kind]
            self._found[kind] = np.flatnonzero(np.bincount(names))
        return self._found[kind]

    def available_signals(self) -> frozenset[str]:
        """The signals of this recording (ids of ``model.signals``)."""
        host = self.host
        kinds = np.bincount(host.kind, minlength=len(HostKind))
        sampled = self.source.format == "probe"  # stack samples, no operators by name
        runtime = np.sort(host.corr[(host.kind == HostKind.RUNTIME) & (host.corr >= 0)])
        linked = len(self.device) and len(runtime) and _share_among(self.device.corr, runtime)
        signals = {
            "host_ops": kinds[HostKind.OP],
            "every_operator": kinds[HostKind.OP] and not sampled,
            "runtime_calls": kinds[HostKind.RUNTIME],
            "python_stacks": kinds[HostKind.PYTHON] or self._has_detail("stack"),
            "shapes": self._has_detail("dims"),
            "device_events": len(self.device),
            "memory_events": len(self.memory.time),
            "memory_capacity": self.info.memory_bytes,
            "gpu_model": self.info.name,
            "tfdata_model": any(pipeline.nodes for pipeline in self.process.pipelines),
            "world_size": self.world_size,
            "worker_batches": (self.loading.batches["worker"] >= 0).any(),
            "row_sums": len(self.loading.rows),
            "batch_padding": len(self.loading.padding),
            "launch_links": linked > 0.5,
        }
        facts = {name for name, fact in FACTS.items() if getattr(self.process, fact) is not None}
        return frozenset(facts | {signal for signal, present in signals.items() if present})

    def _has_detail(self, attribute: str) -> bool:
        return any(getattr(detail, attribute) for detail in self.details)


def _share_among(values: I64, listed: I64) -> float:
    """The share of values that are among others, which are sorted. On millions of rows this takes a
    fraction of the time of ``numpy.isin``."""
    places = np.minimum(np.searchsorted(listed, values), len(listed) - 1)
    return float((listed[places] == values).mean())
