"""Set operations on columns of small codes (names, threads, kinds). A table lookup takes a tenth of
the time of ``numpy.unique`` or ``numpy.isin`` on millions of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import I64, Mask


def used_codes(codes: NDArray[Any]) -> I64:
    """Return the codes that occur, ascending. Codes are non-negative and small."""
    return np.flatnonzero(np.bincount(codes)) if len(codes) else np.empty(0, dtype=np.int64)


def map_names(
    names: Sequence[str], codes: NDArray[Any], value: Callable[[str], object], dtype: str
) -> NDArray[Any]:
    """Return the value of each code's name, computed once per name."""
    table = np.zeros(len(names) + 1, dtype=dtype)
    for code in used_codes(codes):
        table[code] = value(names[code])
    return table[codes]


def is_among(codes: NDArray[Any], wanted: Iterable[int]) -> Mask:
    """Return whether each code is one of the wanted ones."""
    listed = np.fromiter((int(code) for code in wanted), dtype=np.int64)
    if not len(codes):
        return np.empty(0, dtype=bool)
    table = np.zeros(int(codes.max()) + 1, dtype=bool)
    table[listed[(listed >= 0) & (listed < len(table))]] = True
    return table[codes]
