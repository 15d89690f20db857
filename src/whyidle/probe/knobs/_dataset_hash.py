"""Hashes the contents of a dataset: equal as long as the script has not changed it.

The dataset is pickled into a hash function. Functions and classes that pickle cannot find by name,
such as lambdas, are hashed by identity and by the contents of their closures. Global variables and
class attributes are ignored. What cannot be pickled, or is very large, has no hash.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
import types
from typing import Any

LARGEST_BYTES = 256 << 20
"""of a pickled dataset: hashing takes up to half a second in each epoch"""


class NoHashError(Exception):
    """The dataset cannot be pickled, or is too large; the message says why."""


def hash_contents(*objects: Any, skip_shared: bool = False) -> bytes:
    """Return one hash of all objects. ``skip_shared`` leaves out tensors in shared memory, whose
    current values worker processes see.

    Raises:
        NoHashError: one of them cannot be hashed.
    """
    sink = _HashSink()
    try:
        _HashPickler(sink, skip_shared).dump(objects)
    except NoHashError:
        raise
    except Exception as error:  # whatever the classes of the script raise
        raise NoHashError(f"it cannot be pickled ({error})") from error
    return sink.hash.digest()


class _HashSink:
    """A file that keeps only the hash of what is written."""

    def __init__(self) -> None:
        self.hash = hashlib.blake2b(digest_size=16)
        self.left_bytes = LARGEST_BYTES

    def write(self, data: Any) -> int:
        count = memoryview(data).nbytes
        self.left_bytes -= count
        if self.left_bytes < 0:
            raise NoHashError(f"it is larger than {LARGEST_BYTES >> 20} MiB")
        self.hash.update(data)
        return count


class _HashPickler(pickle.Pickler):
    def __init__(self, sink: _HashSink, skip_shared: bool) -> None:
        super().__init__(sink, protocol=5)
        self.skip_shared = skip_shared

    def reducer_override(self, value: Any) -> Any:
        """What stands for an object in the pickle; ``NotImplemented`` for the usual."""
        if isinstance(value, (types.FunctionType, type)) and not _has_name(value):
            return tuple, ((id(value), *_function_parts(value)),)
        torch = sys.modules.get("torch")
        if self.skip_shared and torch and isinstance(value, torch.Tensor) and value.is_shared():
            return tuple, (("shared", id(value)),)
        return NotImplemented


def _has_name(value: Any) -> bool:
    """Whether pickle finds a function or class by its name."""
    member: Any = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        member = getattr(member, name, None)
    return member is value


def _function_parts(value: Any) -> tuple[Any, ...]:
    """What a function works on besides its arguments."""
    if isinstance(value, type):
        return ()
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    return id(value.__code__), value.__defaults__, value.__kwdefaults__, cells
