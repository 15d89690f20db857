"""The part of the diagnosis document about the model itself (``whyidle run --look model``). Times
are seconds of a step, shares are 0-1; None: not known."""

from __future__ import annotations

import msgspec


class LayerRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A module that contains no others. ``share`` is its part of the forward and backward pass,
    ``attained`` the part of what the device can do at the module's ratio of FLOPs to bytes."""

    name: str
    kind: str
    calls: int
    forward_s: float
    backward_s: float
    share: float
    flops: float | None
    bytes: int
    attained: float | None


class LayerSwap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A switch of the model, measured on this job's own batch. ``step_s`` is the whole step that is
    predicted with it; ``change`` is how many times shorter the step becomes (below 1: longer), None
    where its sign is within the noise. ``keeps``: results are the same apart from rounding.
    ``modules`` and ``in_place`` told swaps of single layers in documents of version 0.2."""

    kind: str
    title: str
    modules: list[str] = []
    keeps: bool
    in_place: bool = True
    step_s: float | None
    change: tuple[float, float] | None
    why: str | None = None


class Architecture(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the model's time goes, and what switches of the model would bring. ``pass_s`` is one
    forward and backward pass; ``peak_flops`` and ``peak_bytes`` are what a matrix product and a
    copy attain on this device, each second."""

    batch: int | None
    pass_s: float | None
    step_s: float | None
    passes: int  # of a step
    peak_flops: float | None
    peak_bytes: float | None
    layers: list[LayerRow]
    swaps: list[LayerSwap]
    notes: list[str]
    unknown: list[str]
