"""Messages between a reading helper process and its parent, in frames over pipes."""

from __future__ import annotations

import pickle
import signal
import struct
import sys
from pathlib import Path
from typing import IO, Any, NamedTuple

from whyidle.errors import BrokenTraceError, InputError, NotATraceError
from whyidle.importers import kineto
from whyidle.model.timeline import Timeline

_COUNT = struct.Struct("<q")


class Request(NamedTuple):
    """A request to read a file, or a member of it."""

    path: str
    member: str | None


class _Refusal(NamedTuple):
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
    if isinstance(value, _Refusal):
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


def serve_requests() -> None:
    """Answer requests until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            request = receive_value(requests)
        except EOFError:
            return
        send_value(answers, _answer_request(Request(*request)))


def _answer_request(request: Request) -> Timeline | _Refusal:
    try:
        return kineto.load(Path(request.path), member=request.member)
    except InputError as error:
        return _Refusal(type(error).__name__, error.what, error.why, error.hint)
