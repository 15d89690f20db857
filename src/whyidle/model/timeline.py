"""What one process recorded, as columns: the ``Timeline``.

Times are integer nanoseconds since ``base_ns`` (a clock that all ranks of one host share, or
that ``analysis.ranks`` aligns). Columns are read-only numpy arrays sorted by start; a missing
number is -1 where a column is an integer and nan where it is a float, and never leaves the
analysis in that form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.model.loading import Loading
from whyidle.model.marks import EMPTY
from whyidle.model.operators import Operator
from whyidle.model.process_facts import (
    BurstInRun,
    KeptLoss,
    LifePhases,
    Neighbours,
    ProcessFacts,
    Stepless,
)
from whyidle.model.roles import IMPLIED, Role, Vocabulary
from whyidle.model.stack_samples import StackSamples
from whyidle.model.telemetry import Telemetry

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
F64 = NDArray[np.float64]
F32 = NDArray[np.float32]


class HostKind(IntEnum):
    """What kind of thing a host event is."""

    RUNTIME = 0
    OP = 1
    PYTHON = 2
    ANNOTATION = 3
    OVERHEAD = 4


class DeviceKind(IntEnum):
    """What kind of thing a device event is."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2


@dataclass(frozen=True, slots=True)
class Detail:
    """What some events say beyond their name. ``dims`` and ``types`` are JSON text, as recorded."""

    dims: str = ""
    types: str = ""
    stack: str = ""
    collective: str = ""
    elements: int = -1
    group_size: int = -1
    group: str = ""
    after: bool = False
    """a look's stack is that of the line at which a stretch of Python was over"""


@dataclass(frozen=True, slots=True, eq=False)
class HostEvents:
    """Events on host threads. ``name`` indexes ``Timeline.names``, ``thread`` ``threads``,
    ``detail`` ``Timeline.details`` (-1: none), ``corr`` is the
    correlation id (-1: none)."""

    start: I64
    end: I64
    kind: NDArray[np.uint8]
    name: I32
    thread: NDArray[np.int16]
    corr: I64
    detail: I32

    @classmethod
    def of(cls, start: I64, end: I64, **columns: Any) -> HostEvents:
        """Events of a start, an end, and columns, or one value for all; ``corr`` and ``detail`` are
        none where they are not given."""
        found = {"start": start, "end": end, "corr": -1, "detail": -1, **columns}
        types = (np.int64, np.int64, np.uint8, np.int32, np.int16, np.int64, np.int32)
        named = zip(cls.__slots__, types, strict=True)
        return cls(*(np.full(len(start), found[column], dtype) for column, dtype in named))

    def __len__(self) -> int:
        return len(self.start)

    def join(self, *others: HostEvents) -> HostEvents:
        """All rows of these and of others, sorted by start, the longest first."""
        parts = (self, *others)
        joined = (np.concatenate([getattr(p, column) for p in parts]) for column in self.__slots__)
        return (events := HostEvents(*joined)).take_rows(np.lexsort((-events.end, events.start)))

    def take_rows(self, rows: NDArray[Any]) -> HostEvents:
        """The same columns for some rows (indices or mask)."""
        return HostEvents(*(getattr(self, column)[rows] for column in self.__slots__))


@dataclass(frozen=True, slots=True, eq=False)
class DeviceEvents:
    """Events on device streams. ``size`` is bytes moved (-1: unknown), ``blocks_per_sm`` and
    ``occupancy`` (0-1, estimated by the profiler) are nan where unknown."""

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
        """The same columns for some rows (indices or mask)."""
        return DeviceEvents(*(getattr(self, column)[rows] for column in self.__slots__))


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """The accelerator as the recording describes it; None = not recorded."""

    kind: str = "cpu"
    name: str | None = None
    count: int = 0
    memory_bytes: int | None = None
    sm_count: int | None = None
    capability: tuple[int, int] | None = None
    peaks: tuple[float, float, float, float, float] | None = None
    """FLOP/s in fp32, tf32, fp16 and bf16, and bytes/s of memory, where the recording says so"""


@dataclass(frozen=True, slots=True, eq=False)
class MemorySamples:
    """Device memory after each allocator event, in bytes."""

    time: I64
    allocated: I64
    reserved: I64


@dataclass(frozen=True, slots=True, eq=False)
class CpuPace:
    """What the training thread had used when each exchange of gradients ended: ns on a processor,
    and ns waiting for one, since it began."""

    time: I64
    ran: I64
    queued: I64


@dataclass(frozen=True, slots=True)
class Source:
    """Where a timeline came from, and what was lost on the way."""

    path: str
    format: str
    events: int = 0
    bytes: int = 0
    notes: tuple[str, ...] = ()
    lost: str | None = None
    origin_ns: int = 0
    """what the file's own clock shows at the timeline's 0"""

    @property
    def display_path(self) -> str:
        """The path as text that can be written anywhere: bytes that are no UTF-8 are escaped."""
        return self.path.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True, eq=False)
class StackSampleWeights:
    """Stack samples as a random sample of time. ``phase`` tells looks of different phases of a step
    apart, whose lengths are known from recorded calls; ``weight`` is how long each speaks for, ns.
    ``unsure`` ones, between recorded calls, found Python running for so short a time that they were
    counted for operators, as it may be the framework's own. ``own`` ones say what they saw
    themselves, and not what another one did."""

    time: I64
    phase: I64
    weight: F64
    unsure: NDArray[np.bool_]
    own: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """One process's recording."""

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
    cut: bool = False
    """the file ended before its document did"""
    process: ProcessFacts = field(default_factory=ProcessFacts)
    """what a watched process said about itself"""
    phases: LifePhases = field(default_factory=LifePhases)
    """what of its life is no training"""
    kept_losses: tuple[KeptLoss, ...] = ()
    """lines that keep a loss of every step, where its memory grows"""
    neighbours: Neighbours | None = None
    stepless: Stepless | None = None
    """of a command in which no training step was seen; None: steps are to be looked for"""
    burst: BurstInRun | None = None
    """which steps of its run it is a recording of; None: it is no burst"""
    loading: Loading = field(default_factory=Loading)
    pace: CpuPace | None = None
    """of a rank on a CPU; None: not recorded"""
    telemetry: Telemetry | None = None
    """what was read from outside while it ran, on the clock of ``base_ns``"""
    marks: NDArray[Any] = field(default_factory=lambda: EMPTY)
    """how far a watched device had come in a sample of the steps, as ``model.marks.MARK``"""
    stack_samples: StackSamples | None = None
    """as recorded; None: none were taken, or ``analysis.sampling`` has interpreted them already"""
    sources: Mapping[str, str] = field(default_factory=dict)
    """the user's files that its stacks name -> their text, as it was when the process ended"""
    looks: StackSampleWeights | None = None
    """of stack samples at random moments; None: none were taken"""
    disturbed: tuple[tuple[int, int], ...] = ()
    """times during which measuring itself slowed the process: steps in them do not count"""
    bursts: tuple[Timeline, ...] = ()
    """recordings of every operator of a few steps of this process, each on a clock of its own"""
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    """how the framework spells the names"""
    roles: tuple[str, ...] = ()
    """of each name the role that the process gave it; empty, and beyond the end: the vocabulary
    tells"""
    _found: dict[Any, I64] = field(default_factory=dict, init=False, repr=False)

    def names_of(self, role: Role, *kinds: HostKind) -> I64:
        """Names of host events that play a role, as indices into ``names``; of events of some
        ``kinds``, where given."""
        rows = self.rows_of(role)
        if kinds:
            rows = rows[np.isin(self.host.kind[rows], kinds)]
        return np.flatnonzero(np.bincount(self.host.name[rows]))

    def rows_of(self, role: Role) -> I64:
        """Rows of the host events that play a role. Each name is matched once."""
        if role not in self._found:
            played = np.zeros((len(HostKind), len(self.names)), dtype=bool)
            told = [IMPLIED.get(given) for given in self.roles]
            for i, roles in enumerate(told):
                played[:, i] = roles is not None and role in roles
            for kinds, pattern in self.vocabulary.matchers(role):
                for kind in kinds or HostKind:
                    for i in self._names_by_kind(HostKind(kind)):
                        if i >= len(told) or told[i] is None:
                            played[kind, i] = bool(pattern.search(self.names[i]))
            self._found[role] = (
                np.flatnonzero(played[self.host.kind, self.host.name])
                if played.any()
                else np.empty(0, dtype=np.int64)
            )
        return self._found[role]

    def plays(self, role: Role, name: int) -> bool:
        """Whether a name, by its index, plays a role, whatever the kind of its event."""
        told = self.roles[name] if name < len(self.roles) else ""
        return self.vocabulary.plays(role, self.names[name], told)

    def playing(self, events: HostEvents, *roles: Role) -> NDArray[np.bool_]:
        """Which of some host events, numbered by these names, play one of some roles, whatever
        their kind."""
        known = [any(self.plays(role, i) for role in roles) for i in range(len(self.names))]
        found: NDArray[np.bool_] = np.array([*known, False], dtype=bool)[events.name]
        return found

    def label(self, role: Role, name: int) -> str:
        """What is called so in a name that plays a role, such as the class of an optimizer; empty
        where the name does not tell."""
        return self.vocabulary.parts(role, self.names[name]).get("label", "")

    def operator(self, name: int) -> Operator:
        """What the operator of a name does, by its index."""
        return self.vocabulary.operator(self.names[name])

    def _names_by_kind(self, kind: HostKind) -> I64:
        """Indices of the names that events of a kind have."""
        if kind not in self._found:
            names = self.host.name[self.host.kind == kind]
            self._found[kind] = (
                np.flatnonzero(np.bincount(names)) if len(names) else np.empty(0, dtype=np.int64)
            )
        return self._found[kind]

    def available_signals(self) -> frozenset[str]:
        """The evidence this recording holds by itself (ids of ``model.signals``)."""
        host, found = self.host, set()
        kinds = np.bincount(host.kind, minlength=len(HostKind))
        found |= {"host_ops"} if kinds[HostKind.OP] else set()
        sampled = self.source.format == "probe"  # what ran at some moments, and no operator by name
        found |= {"every_operator"} if kinds[HostKind.OP] and not sampled else set()
        found |= {"runtime_calls"} if kinds[HostKind.RUNTIME] else set()
        found |= {"python_stacks"} if kinds[HostKind.PYTHON] or self._has_detail("stack") else set()
        found |= {"shapes"} if self._has_detail("dims") else set()
        found |= {"device_events"} if len(self.device) else set()
        found |= {"memory_events"} if len(self.memory.time) else set()
        found |= {"memory_capacity"} if self.info.memory_bytes else set()
        found |= {"gpu_model"} if self.info.name else set()
        found |= {"own_settings"} if self.process.switches is not None else set()
        found |= {"own_allocator"} if self.process.allocator is not None else set()
        found |= {"own_process"} if self.process.imported is not None else set()
        found |= {"world_size"} if self.world_size else set()
        found |= {"worker_batches"} if (self.loading.batches["worker"] >= 0).any() else set()
        found |= {"row_sums"} if len(self.loading.rows) else set()
        found |= {"batch_padding"} if len(self.loading.padding) else set()
        runtime = host.corr[(host.kind == HostKind.RUNTIME) & (host.corr >= 0)]
        if len(self.device) and len(runtime) and np.isin(self.device.corr, runtime).mean() > 0.5:
            found.add("launch_links")
        return frozenset(found)

    def _has_detail(self, attribute: str) -> bool:
        return any(getattr(detail, attribute) for detail in self.details)
