"""Reads what py-spy writes with ``--format chrometrace --threads --subprocesses --idle``: which
stack each thread of some processes had, and from when until when."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from whyidle.errors import BrokenTraceError

_PROCESS = re.compile(r'process (\d+)(?::"(.*)")?', re.DOTALL)
_THREAD = re.compile(r"thread \((0x[0-9a-fA-F]+|\d+)\)(?:: (.*))?", re.DOTALL)


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
        return list(_read_threads(events))
    except (OSError, msgspec.DecodeError, KeyError, TypeError, IndexError) as error:
        raise BrokenTraceError(f"The samples of py-spy cannot be read: {error}.") from error


def _read_threads(events: list[dict[str, Any]]) -> Iterator[SampledThread]:
    by_thread: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in events:
        if event.get("ph") in ("B", "E"):
            by_thread.setdefault((event["pid"], event["tid"]), []).append(event)
    for (pid, _), own in by_thread.items():
        thread, open_, since = SampledThread(pid, None, ""), list[str](), 0
        for event in own:
            moment = int(event["ts"]) * 1000
            if moment > since and open_:
                thread.periods.append(StackPeriod(since, moment, tuple(reversed(open_))))
            since = moment
            if _name_thread(thread, event["name"], event["args"]["filename"]):
                continue
            if event["ph"] == "B":
                open_.append(_frame_text(event["name"], event["args"]))
            elif open_:
                open_.pop()
        yield thread


def _name_thread(thread: SampledThread, name: str, file: str) -> bool:
    """Whether a frame is none, but names the process or the thread."""
    if file:
        return False
    if (found := _THREAD.fullmatch(name)) is not None:
        is_main = (found[2] or "") == "MainThread"
        known = None if found[1].startswith("0x") else int(found[1])
        thread.tid = thread.pid if is_main and known is None else known
        thread.name = found[2] or ""
        return True
    return _PROCESS.fullmatch(name) is not None


def _frame_text(name: str, args: dict[str, Any]) -> str:
    """A frame as in our own samples: the function without the class or function around it."""
    return f"{args['filename']}({args['line']}): {name.rpartition('.')[2]}"
