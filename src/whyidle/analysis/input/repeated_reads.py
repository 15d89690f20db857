"""Whether a loader produces the same for a sample again, and reads the same data again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import I64


def count_repeats(rows: NDArray[Any]) -> tuple[int, int]:
    """Return for how many checked samples (``ROW`` records) the same result was produced again, and
    how many were produced again."""
    same = again = 0
    for index in np.unique(rows["index"]):
        sums = rows["sum"][rows["index"] == index]
        if len(sums) > 1:
            again += 1
            same += int((sums == sums[0]).all())
    return same, again


def storage_share(batches: NDArray[Any]) -> float:
    """Return the part of the bytes read for some batches that came from storage."""
    needed = batches["chars"].sum() + 4096 * batches["faults"].sum()  # a page
    return float(batches["read"].sum() / needed) if needed > 0 else 0.0


def second_epoch_start(first: I64, made: Sequence[int]) -> int | None:
    """Return when the second recorded epoch began, ns; None with only one. ``first`` is when the
    first batch of each later epoch was begun, ``made`` when iterators were created; persistent
    workers serve one of them."""
    return min((int(time) for time in (*first[:1], *sorted(made)[1:2])), default=None)
