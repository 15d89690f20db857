"""Recordings of a state instead of a course of time: what fills the memory of a device, and in
which collective each rank of a job is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from whyidle.model.diagnosis import Place


class HeldMemory(Struct, frozen=True):
    """Memory that one place of the program allocated; ``place`` is None if it is not recorded."""

    place: Place | None
    size: int


class FailedAllocation(Struct, frozen=True):
    """An allocation that the device had no memory for: bytes asked, and bytes free on the device
    (None: not recorded)."""

    size: int
    free: int | None


class DeviceMemory(Struct, frozen=True):
    """The cache of PyTorch's allocator on one device, in bytes.

    ``reserved`` was taken from the driver, ``allocated`` is in use. ``stranded`` is free but lies
    in segments in use, so that it can be given to smaller tensors only. ``peak`` is the most that
    was in use while the history was recorded (without history: now), by ``holders``, the largest
    first. ``failed`` are the allocations that failed, in order.
    """

    device: int
    reserved: int
    allocated: int
    stranded: int
    largest_gap: int
    peak: int
    holders: tuple[HeldMemory, ...]
    failed: tuple[FailedAllocation, ...] = ()
    has_history: bool = False


class MemorySnapshot(Struct, frozen=True):
    """What ``torch.cuda.memory._dump_snapshot`` wrote."""

    path: str
    devices: tuple[DeviceMemory, ...]


class Collective(Struct, frozen=True):
    """One collective of one rank. ``state`` is ``scheduled``, ``started`` or ``completed``;
    ``number`` counts the collectives of its group, ``created_ns`` is the time of the call."""

    number: int
    name: str
    sizes: str
    state: str
    place: Place | None
    created_ns: int


class GroupHistory(Struct, frozen=True):
    """The last collectives of a rank in one group, by number, and the ranks of the group (empty:
    not recorded)."""

    name: str
    members: tuple[int, ...]
    collectives: tuple[Collective, ...]


class FlightRecord(Struct, frozen=True):
    """What one rank's flight recorder of NCCL wrote."""

    path: str
    rank: int | None
    groups: tuple[GroupHistory, ...]


class TransportLog(Struct, frozen=True):
    """What NCCL logged of its transports: the pairs of ranks that each connects ``within`` and
    ``between`` nodes, the variables that NCCL obeyed, and which of the known phrases it said."""

    path: str
    version: str
    ranks: int
    within: Mapping[str, int]
    between: Mapping[str, int]
    settings: Mapping[str, str]
    said: frozenset[str]


class GpuSeries(Struct, frozen=True, eq=False):
    """The samples of one GPU: the share of time in which a kernel ran and in which the memory's
    controller worked (percent), memory used and in all (MiB); nan where not recorded."""

    gpu: str
    busy: NDArray[np.float64]
    controller: NDArray[np.float64]
    used: NDArray[np.float64]
    total: NDArray[np.float64]


class GpuLog(Struct, frozen=True, eq=False):
    """A log of ``nvidia-smi``; ``period_s`` lies between samples, None if they have no times."""

    path: str
    gpus: tuple[GpuSeries, ...]
    period_s: float | None
