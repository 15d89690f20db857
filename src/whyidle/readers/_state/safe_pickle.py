"""Pickles of plain data: dictionaries, lists, texts and numbers. All else is refused, so that
reading a file never runs code that stands in it."""

from __future__ import annotations

import io
import pickle
from typing import Any

FAULTS: tuple[type[Exception], ...] = (
    *(pickle.UnpicklingError, EOFError, AttributeError, IndexError, KeyError, MemoryError),
    *(TypeError, ValueError, OverflowError, RecursionError, ImportError, NotImplementedError),
)
"""what the unpickler raises for bytes that are no pickle of plain data"""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(
            f"it holds an object of {module}.{name}, which is not plain data"
        )


def read_plain_pickle(data: bytes) -> Any:
    """Read a pickle of plain data.

    Raises:
        FAULTS: it is damaged, or holds other objects.
    """
    return _PlainUnpickler(io.BytesIO(data)).load()
