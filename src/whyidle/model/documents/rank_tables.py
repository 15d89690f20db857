"""The parts of the diagnosis document that are of ranks and of groups of ranks."""

from __future__ import annotations

import msgspec


class Attribution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shares of the step's device time; they sum to 1."""

    input: float
    transfer: float
    host: float
    sync: float
    communication: float
    interruption: float
    compute: float
    unknown: float


class RankRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rank: its step time, attribution, and arrival at collectives.

    ``lateness_s`` is the exposed time per step that others wait for this rank, ``waiting`` the
    share of the step that it waits for them, ``last_ratio`` the share of collectives at which it
    arrives last, ``path_ratio`` the share of the critical path over all ranks that runs through it.
    """

    rank: int | None
    source: str
    step_s: float | None
    attribution: Attribution
    lateness_s: float | None
    waiting: float | None = None
    last_ratio: float | None = None
    path_ratio: float | None = None
    steps: list[Attribution]


class WhatIf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The step as it was measured, with one thing changed."""

    name: str
    step_s: float


class RankGroupRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ranks with one value of a name: a node, a pipeline stage, an index. Means over its ranks;
    ``lateness_s`` is that of its latest rank, ``path_ratio`` the sum.
    """

    kind: str
    name: str
    ranks: int
    step_s: float | None
    attribution: Attribution
    lateness_s: float | None
    waiting: float | None
    path_ratio: float
