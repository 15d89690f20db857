"""Messages between a reading helper process and its parent, in frames over pipes."""

from __future__ import annotations

import pickle
import struct
from typing import IO, Any, NamedTuple

from whyidle.errors import BrokenTraceError, InputError, NotATraceError

_COUNT = struct.Struct("<q")


class Request(NamedTuple):
    """A request to read a file, or a member of it; all, or one range of its text."""

    path: str
    member: str | None
    range: int | None = None


class Refusal(NamedTuple):
    """An error of reading, as it is sent."""

    kind: str
    what: str
    why: str
    hint: str


_ERRORS = {error.__name__: error for error in (InputError, NotATraceError, BrokenTraceError)}


def send_value(pipe: IO[bytes], value: Any) -> None:
    """Write a value: its pickle, then its arrays as in memory."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts = [memoryview(body), *(buffer.raw() for buffer in buffers)]
    pipe.write(_COUNT.pack(len(parts)))
    for part in parts:
        pipe.write(_COUNT.pack(part.nbytes))
        pipe.write(part)
    pipe.flush()


def receive_value(pipe: IO[bytes]) -> Any:
    """Read a value.

    Raises:
        EOFError: the other side has ended.
    """
    (count,) = _COUNT.unpack(_read_exactly(pipe, _COUNT.size))
    parts = []
    for _ in range(count):
        (size,) = _COUNT.unpack(_read_exactly(pipe, _COUNT.size))
        parts.append(_read_exactly(pipe, size))
    value = pickle.loads(parts[0], buffers=parts[1:])
    if isinstance(value, Refusal):
        return _ERRORS[value.kind](value.what, why=value.why, hint=value.hint)
    return value


def _read_exactly(pipe: IO[bytes], size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    offset = 0
    while offset < size:
        count = pipe.readinto(view[offset:])  # type: ignore[attr-defined]  # buffered pipes have it
        if not count:
            raise EOFError("the other process has ended")
        offset += count
    return data
