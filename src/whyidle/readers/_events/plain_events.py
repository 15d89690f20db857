"""Chrome traces that are small enough to be decoded whole: those of profilers whose events tell by
their process what they are."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from whyidle.errors import BrokenTraceError
from whyidle.frameworks.torch.names import VOCABULARY
from whyidle.model.timeline import DeviceInfo, HostKind, Source, Timeline
from whyidle.readers._events.event_rows import EventRows
from whyidle.readers._files.byte_stream import ByteStream, Progress

_MOST_BYTES = 4 << 30
_OPERATOR = re.compile(r"^[\w.]+::(?!evaluate_function)|^_?[a-z][a-z0-9_]*$|^\w+Backward\d*$")
"""operators: ``aten::mm``, since 2020; ``mm`` before; the gradient of one"""
_FRAME = re.compile(r"\.py\(\d+\): ")


class PlainEvent(msgspec.Struct, gc=False):
    """One event. Times are microseconds, and in some traces texts."""

    ph: str = ""
    name: str = ""
    cat: Any = ""
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = 0
    id: Any = None
    args: Any = None

    @property
    def kind(self) -> HostKind:
        """What it is on the host: an operator, a function of Python, or an annotation."""
        if self.cat == "python_function" or _FRAME.search(self.name):
            return HostKind.PYTHON
        return HostKind.OP if _OPERATOR.match(self.name) else HostKind.ANNOTATION

    @property
    def start_ns(self) -> int:
        """Its start."""
        return _nanoseconds(self.ts)

    @property
    def end_ns(self) -> int:
        """Its end."""
        return _clip(self.start_ns + _nanoseconds(self.dur))

    @property
    def is_span(self) -> bool:
        """Whether it is a span of time, and recorded when."""
        return self.ph == "X" and self.start_ns != _NEVER

    def argument(self, name: str) -> Any:
        """One of its arguments; None without it."""
        return self.args.get(name) if isinstance(self.args, dict) else None


def _nanoseconds(value: Any) -> int:
    """Microseconds as nanoseconds, exact also where a double is not."""
    try:
        if isinstance(value, str):
            whole, _, fraction = value.strip().partition(".")
            if whole.isdecimal() and (fraction or "0").isdecimal():
                return _clip(int(whole) * 1000 + int((fraction + "000")[:3]))
        number = float(value) * 1000
    except (TypeError, ValueError, OverflowError):
        return _NEVER
    return _clip(round(number)) if math.isfinite(number) else _NEVER


_NEVER = 1 << 62
"""the time of an event without one"""


def _clip(value: int) -> int:
    return max(-_NEVER, min(value, _NEVER))


class _Document(msgspec.Struct):
    events: list[PlainEvent] = msgspec.field(name="traceEvents", default_factory=list)


class PlainTrace(NamedTuple):
    """A decoded trace: what could not be read of it, and its number of bytes."""

    events: list[PlainEvent]
    lost: str | None
    size: int


def read_events(path: Path, member: str | None, progress: Progress | None) -> PlainTrace:
    """Decode a trace; one that was cut short up to its last complete event.

    Raises:
        InputError: the file cannot be opened.
        BrokenTraceError: nothing in it could be read.
    """
    stream = ByteStream(path, member, progress)
    try:
        text = stream.read(_MOST_BYTES).lstrip(b"\xef\xbb\xbf \t\r\n")
    finally:
        stream.close()
    bare = text.startswith(b"[")
    complete = text[: text.rfind(b"}") + 1].rstrip(b" \t\r\n,") + (b"]" if bare else b"]}")
    lost = stream.broken
    for attempt in (text, complete):
        try:
            events = (
                msgspec.json.decode(attempt, type=list[PlainEvent])
                if bare
                else msgspec.json.decode(attempt, type=_Document).events
            )
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            lost = lost or "the file ends within an event"
            continue
        return PlainTrace(events, lost, len(text))
    shown = f"{path}!{member}" if member else str(path)
    raise BrokenTraceError(
        f"No event could be read from {shown}.",
        why="Its text is not valid JSON.",
        hint="Copy the file again, or let the profiler finish before copying it.",
    )


class EventGroup:
    """Events of one kind on one thread or stream, in columns."""

    def __init__(self, events: list[PlainEvent]) -> None:
        self.events = events
        self.start = np.array([event.start_ns for event in events], dtype=np.int64)
        self.end = np.array([event.end_ns for event in events], dtype=np.int64)

    def add_host(self, rows: EventRows, thread: str) -> None:
        """Append them as what a thread of the host did."""
        kinds = [event.kind for event in self.events]
        rows.add_host(
            self.start,
            self.end,
            kind=kinds,
            name=self.name_codes(rows),
            thread=rows.threads[thread],
        )

    def name_codes(self, rows: EventRows) -> NDArray[np.int32]:
        """The numbers of their names."""
        return rows.name_codes([event.name for event in self.events])


def build_timeline(
    trace: PlainTrace, rows: EventRows, info: DeviceInfo, source: Source
) -> Timeline:
    """The recording of the collected ``rows``; ``source`` has its path, its format, and notes.

    Raises:
        BrokenTraceError: there are none.
    """
    host, device, base = rows.build()
    if not len(host) + len(device):
        raise BrokenTraceError(
            f"No event could be read from {source.display_path}.",
            why="Its event list contains no event with a valid time.",
            hint="Export the trace again, and let the profiler finish before copying the file.",
        )
    text = f"{rows.ignored} events with impossible times were ignored"
    source = replace(
        source,
        events=max(len(trace.events), len(host) + len(device)),
        bytes=trace.size,
        notes=(*source.notes, *((text,) if rows.ignored else ())),
        lost=trace.lost,
        origin_ns=base,
    )
    return rows.make_timeline(
        host,
        device,
        source=source,
        base_ns=max(0, base),
        info=info,
        framework="pytorch",
        vocabulary=VOCABULARY,
        cut=trace.lost is not None,
    )
