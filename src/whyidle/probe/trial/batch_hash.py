"""A hash of what a step is given, which shows that a fix left the data and its order as they were.

It stands in for the loss of steps that return none, such as a compiled step that only updates
parameters. Larger arrays are sampled evenly, so that it takes less than a millisecond.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

MOST_BYTES = 1 << 20


def hash_arrays(arrays: Iterable[Any]) -> int | None:
    """Return a checksum of NumPy arrays in order; None without any."""
    total = None
    for array in arrays:
        total = zlib.crc32(_bytes_of(array), zlib.crc32(str(array.shape).encode(), total or 0))
    return total


def _bytes_of(array: Any) -> bytes:
    flat = array.reshape(-1)
    if flat.dtype.hasobject:  # strings: their bytes are addresses
        return repr(flat.tolist()).encode()
    every = flat.nbytes // MOST_BYTES | 1  # odd: not always the same column
    return bytes(flat[::every].tobytes())
