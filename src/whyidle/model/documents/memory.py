"""The part of the diagnosis document about memory (``whyidle run --look memory``). Sizes are bytes;
None: not known, and ``unknown`` says why."""

from __future__ import annotations

from typing import Literal

import msgspec

Change = Literal["batch", "precision", "recomputation", "accumulation", "optimizer", "sharding"]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the owners of memory at the peak of a step; they sum to the peak."""

    owner: str
    bytes: int


class ModuleRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the backward pass of a module needs, modules inside it left out; ``forward_s`` is the
    time of its forward pass, modules inside it included."""

    name: str
    kind: str
    activations: int
    forward_s: float | None


class MemoryOption(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of the job, with the peak and the step that are predicted for it. ``batch`` is the
    micro-batch, ``far``: more than twice the largest one that was measured, so only a direction.
    ``modules`` are recomputed. ``fits`` is None where the limit is not known."""

    change: Change
    summary: str
    batch: int
    peak: int | None
    step_s: float | None
    samples_per_s: float | None
    fits: bool | None
    far: bool = False
    modules: list[str] = []


class MemoryDeath(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An error of memory that ended the job: what was asked for, what held the rest, the last line
    of the user's program and the module whose forward pass it was, the largest tensors in variables
    on the way there, and the cheapest change that would have fitted. ``modules`` and ``growth``
    stand in documents of version 0.2."""

    error: str
    requested: int | None
    capacity: int | None
    allocated: int | None
    fragmentation: int | None
    file: str | None
    line: int | None
    function: str | None
    module: str | None
    backward: bool
    parts: list[Part]
    largest: list[str]
    modules: list[Part] = []
    growth: str = ""
    change: str


class MemoryAccount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds memory in a step, and what other settings would need."""

    device: str
    batch: int | None  # samples of a micro-batch
    limit: int | None  # that the process may hold in all
    peak: int | None  # of a step
    peak_phase: Literal["forward", "backward", "optimizer"] | None
    parts: list[Part]
    modules: list[ModuleRow]
    reserved: int | None  # by the device's allocator
    fragmentation: int | None  # reserved and not allocated
    loader_bytes: int | None  # in shared memory, by workers that are ahead
    shared_bytes: int | None  # size of /dev/shm
    options: list[MemoryOption]
    largest_batch: int | None  # that fits
    largest_recomputed: MemoryOption | None  # that fits with modules recomputed
    unknown: list[str]
    usable: int | None = None  # of a device that was asked about, whose memory is the limit
    death: MemoryDeath | None = None  # the error of memory that ended the job
