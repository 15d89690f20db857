"""Reads what py-spy writes with ``--threads --subprocesses``: with ``--format chrometrace --idle``
which stack each thread of some processes had, and from when until when; with ``--format raw`` how
many samples found each line.

A trace tells threads apart by ``pthread_self`` alone, which forked processes have in common: events
of all threads of one number follow each other, and the end of a stack bears the process of the next
one. The frames around a stack name its process and thread.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from whyidle.errors import BrokenTraceError

_PROCESS = re.compile(r'process (\d+)(?::"(.*)")?', re.DOTALL)
_THREAD = re.compile(r"thread \((0x[0-9a-fA-F]+|\d+)\)(?:: (.*))?", re.DOTALL)
_RAW_OWNER = re.compile(r"(?:^|;)(process \d+|thread \((?:0x[0-9a-fA-F]+|\d+)\)(?:: [^;]*)?)")
_RAW_LEAF = re.compile(r";(?P<name>[^; ]+) \((?P<file>[^;]*):(?P<line>\d+)\) (?P<count>\d+)$")
LONGEST_NS = 500_000_000
"""between two samples of a thread: 25 periods of 50 a second; after longer it was not seen"""


@dataclass(frozen=True, slots=True)
class StackPeriod:
    """A stack that a thread showed in successive samples: begin and end (ns since the trace began),
    and its frames, innermost first, ``file(line): function``."""

    begin: int
    end: int
    frames: tuple[str, ...]


@dataclass(slots=True)
class SampledThread:
    """One thread. ``tid`` is its number in the kernel; None: unknown."""

    pid: int
    tid: int | None
    name: str
    periods: list[StackPeriod] = field(default_factory=list)


def read_pyspy_trace(path: Path) -> list[SampledThread]:
    """Read all threads of a trace; none if no sample was taken.

    Raises:
        BrokenTraceError: it cannot be read.
    """
    try:
        events = msgspec.json.decode(path.read_bytes())
        return _read_threads(events)
    except (OSError, msgspec.DecodeError, KeyError, TypeError, IndexError) as error:
        raise BrokenTraceError(f"The samples of py-spy cannot be read: {error}.") from error


def _read_threads(events: Iterable[dict[str, Any]]) -> list[SampledThread]:
    threads: dict[tuple[int, int | None, str], SampledThread] = {}
    streams: dict[int, tuple[list[dict[str, Any]], int]] = {}
    for event in events:
        if event.get("ph") not in ("B", "E"):
            continue
        stack, since = streams.get(event["tid"], ([], 0))
        moment = int(event["ts"]) * 1000
        if moment > since and stack:
            _add_period(threads, stack, since, moment)
        if event["ph"] == "B":
            stack.append(event)
        elif stack:
            stack.pop()
        streams[event["tid"]] = stack, moment
    return [_close_gaps(thread) for thread in threads.values()]


def _add_period(
    threads: dict[tuple[int, int | None, str], SampledThread],
    stack: list[dict[str, Any]],
    begin: int,
    end: int,
) -> None:
    pid, tid, name = _name_owner(
        [event["name"] for event in stack if not event["args"]["filename"]], stack[0]["pid"]
    )
    frames = tuple(
        _frame_text(event["name"].rpartition(".")[2], args["filename"], args["line"])
        for event in reversed(stack)
        if (args := event["args"])["filename"]
    )
    if frames:
        thread = threads.setdefault((pid, tid, name), SampledThread(pid, tid, name))
        thread.periods.append(StackPeriod(begin, end, frames))


def _name_owner(names: Iterable[str], pid: int) -> tuple[int, int | None, str]:
    """Process, thread and the thread's name, of the frames that name them: the innermost count."""
    tid, name = None, ""
    for text in names:
        if (process := _PROCESS.fullmatch(text)) is not None:
            pid = int(process[1])
        elif (thread := _THREAD.fullmatch(text)) is not None:
            tid = None if thread[1].startswith("0x") else int(thread[1])
            name = thread[2] or ""
    return pid, pid if tid is None and name == "MainThread" else tid, name


def _close_gaps(thread: SampledThread) -> SampledThread:
    """A stack lasts until the next sample of its thread, though those of another process came in
    between."""
    periods: list[StackPeriod] = []
    for period in thread.periods:
        if periods and 0 <= period.begin - periods[-1].end <= LONGEST_NS:
            periods[-1] = replace(periods[-1], end=period.begin)
            if periods[-1].frames == period.frames:
                periods[-1] = replace(periods[-1], end=period.end)
                continue
        periods.append(period)
    thread.periods = periods
    return thread


def read_pyspy_counts(path: Path) -> dict[tuple[int, int | None], Counter[str]]:
    """How many samples found each line innermost, by process and thread.

    Raises:
        BrokenTraceError: it cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenTraceError(f"The samples of py-spy cannot be read: {error}.") from error
    counts: dict[tuple[int, int | None], Counter[str]] = {}
    for line in lines:
        if (found := _RAW_LEAF.search(line)) is not None:
            pid, tid, _ = _name_owner(_RAW_OWNER.findall(line), 0)
            name = found["name"].rpartition(".")[2]
            leaf = _frame_text(name, found["file"], int(found["line"]))
            counts.setdefault((pid, tid), Counter())[leaf] += int(found["count"])
    return counts


def _frame_text(function: str, file: str, line: int) -> str:
    """A frame as in our own samples: the function without the class or function around it."""
    return f"{file}({line}): {function}"
