"""The picture of a typical step."""

from __future__ import annotations

from typing import Literal

import msgspec


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the picture's parts."""


class Slice(_Part, frozen=True, kw_only=True):
    """A bar in a lane; times in seconds from the start of the picture. A bar of several short
    ``members`` has the label of the longest; ``filled`` is the share (0-1) that they cover."""

    start_s: float
    duration_s: float
    label: str
    group: str
    members: int = 1
    filled: float = 1.0


class Lane(_Part, frozen=True, kw_only=True):
    """A row of the picture."""

    name: str
    kind: Literal["host", "device", "gap"]
    slices: list[Slice]
    dropped: int = 0


class Picture(_Part, frozen=True, kw_only=True):
    """A typical steady step: host and device lanes, and attributed gaps."""

    rank: int | None
    step: str
    duration_s: float
    lanes: list[Lane]
