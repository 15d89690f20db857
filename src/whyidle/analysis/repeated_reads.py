"""Whether a loader makes the same of a sample again, and reads the same from storage again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

PAGE_BYTES = 4096


def made_again(rows: NDArray[Any]) -> tuple[int, int]:
    """Of how many samples the same was made again, of how many that were made again.

    Args:
        rows: ``ROW`` records, one for each sample that was looked at.
    """
    same = again = 0
    for index in np.unique(rows["index"]):
        sums = rows["sum"][rows["index"] == index]
        if len(sums) > 1:
            again += 1
            same += int((sums == sums[0]).all())
    return same, again


def from_storage(batches: NDArray[Any]) -> float:
    """The part of the bytes read for some batches, by calls and from mapped files, that came from
    storage."""
    needed = batches["chars"].sum() + PAGE_BYTES * batches["faults"].sum()
    return float(batches["read"].sum() / needed) if needed > 0 else 0.0


def second_epoch_start(first: NDArray[np.int64], made: Sequence[int]) -> int | None:
    """When the second epoch that was seen began, ns; None where there was but one.

    Args:
        first: when the first batch of each later epoch was begun, ns.
        made: when iterators were made, ns; workers that stay are asked by one of them.
    """
    return min((int(each) for each in (*first[:1], *sorted(made)[1:2])), default=None)
