"""PyTorch profiler traces (Kineto, Chrome JSON), of any age and vendor.

Files that hold the recordings of several processes, as tools write that merge traces of ranks.
Their correlation ids, steps and devices have nothing in common, so each process becomes a recording
of its own.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyidle.errors import BrokenTraceError, NotATraceError
from whyidle.frameworks.torch.names import VOCABULARY
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind, Source, Timeline
from whyidle.readers._events.json_chunks import JsonChunks
from whyidle.readers._events.trace_header import device_of, place_of, to_natural
from whyidle.readers._files.byte_stream import ByteStream, Progress
from whyidle.readers._files.file_identification import head_of, identify_chrome_trace, not_a_trace
from whyidle.readers.kineto.event_columns import EventColumns
from whyidle.readers.kineto.optimizer_closures import without_closures

_LABEL = re.compile(r"^\[[^\]]+\]")
"""SGLang's merger writes ``[TP00-PP01] 4242`` for a process and ``[TP00-PP01] 0`` for its device"""


def split_processes(timeline: Timeline, device_thread: NDArray[np.int16]) -> Timeline:
    """Return the recording of the first process, with those of the ``others``. ``device_thread`` is
    the track of each device event as the file names it, an index into ``threads``."""
    host = timeline.host
    of_thread = [text.rpartition("/")[0] for text in timeline.threads]
    processes = [
        p for p in dict.fromkeys(of_thread) if p in _launching_processes(timeline, of_thread)
    ]
    if len(processes) < 2:
        return timeline
    processes.sort(key=_natural_key)
    index = {name: i for i, name in enumerate(processes)}
    owner = np.array([index.get(name, 0) for name in of_thread])[host.thread]
    device = _owners_of_device_events(timeline, of_thread, device_thread, processes, owner)
    ranks = [
        replace(
            timeline,
            host=host.take_rows(owner == i),
            device=timeline.device.take_rows(device == i),
            rank=i,
            world_size=max(timeline.world_size or 0, len(processes)),
            source=replace(timeline.source, notes=()),
        )
        for i in range(len(processes))
    ]
    note = f"the file holds {len(processes)} processes, which are judged as ranks of one job"
    source = replace(ranks[0].source, notes=(*timeline.source.notes, note))
    return replace(ranks[0], source=source, others=tuple(ranks[1:]))


def _launching_processes(timeline: Timeline, of_thread: list[str]) -> set[str]:
    """The processes that call the device's runtime, or that mark steps if none does."""
    host = timeline.host
    rows = np.flatnonzero(host.kind == HostKind.RUNTIME)
    if not len(rows):
        rows = timeline.rows_of(Role.PROFILER_STEP)
    return {of_thread[i] for i in np.unique(host.thread[rows])}


def _natural_key(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _owners_of_device_events(
    timeline: Timeline,
    of_thread: list[str],
    device_thread: NDArray[np.int16],
    processes: list[str],
    owner: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The process (index into ``processes``) of each device event: by a common label of the names,
    else by the device, of which ranks in order of their process have one each."""
    labels = {_label_of(name): i for i, name in enumerate(processes)}
    if "" not in labels and len(labels) == len(processes):
        return np.array([labels.get(_label_of(name), 0) for name in of_thread])[device_thread]
    numbers = timeline.device.device
    devices = np.unique(numbers)
    if len(devices) == len(processes):
        return np.searchsorted(devices, numbers)
    return _owners_by_correlation(timeline, owner)


def _label_of(name: str) -> str:
    found = _LABEL.match(name)
    return found[0] if found else ""


def _owners_by_correlation(timeline: Timeline, owner: NDArray[np.int64]) -> NDArray[np.int64]:
    """The process whose call with the event's correlation id began last before it."""
    host, device = timeline.host, timeline.device
    found = np.zeros(len(device), np.int64)
    latest = np.full(len(device), np.iinfo(np.int64).min)
    for process in np.unique(owner):
        calls = np.flatnonzero((owner == process) & (host.kind == HostKind.RUNTIME))
        calls = calls[np.argsort(host.corr[calls], kind="stable")]
        if not len(calls):
            continue
        at = np.minimum(np.searchsorted(host.corr[calls], device.corr), len(calls) - 1)
        begin = host.start[calls[at]]
        better = (host.corr[calls[at]] == device.corr) & (begin <= device.start) & (begin > latest)
        found[better], latest[better] = process, begin[better]
    return found


SUFFIXES = (".json", ".json.gz")
_BARREN_BYTES = 1 << 30
"""reading stops after this much text without a useful event"""
_AFTER_2100_NS = 4_102_444_800 * 10**9
_MARKS = (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"', b'"distributedInfo"')


def sniff(head: bytes) -> bool:
    """Return whether a file's first (decompressed) bytes look like a Chrome trace."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"{"):
        return any(mark in text for mark in _MARKS)
    return text.startswith(b"[") and (b'"ph"' in text or text[1:].strip() in (b"", b"]"))


class _ReadText(NamedTuple):
    """What was read besides events: the other keys, what could not be read, whether the end is
    missing, and the size of the text in bytes."""

    header: dict[str, Any]
    lost: tuple[str, ...]
    cut: bool
    size: int


def load(
    path: Path,
    *,
    member: str | None = None,
    progress: Progress | None = None,
) -> Timeline:
    """Read one process's trace: a file or a zip's ``member``. ``progress`` is called with (bytes
    read, total bytes) of the file on disk.

    Raises:
        InputError: the file cannot be opened.
        NotATraceError: it is something else; the message says what.
        BrokenTraceError: nothing in it could be read.
    """
    with _no_collector():
        columns = EventColumns()
        text = _read_stream(ByteStream(path, member, progress), columns, path, member)
        if not columns.event_count:
            raise _explain_empty(path, member, columns, text.lost)
        columns.close()
        timeline = _build_timeline(path, member, columns, text)
        if not len(timeline.host) + len(timeline.device):
            raise _explain_empty(path, member, EventColumns(), text.lost)
        return timeline


def _read_stream(
    stream: ByteStream, columns: EventColumns, path: Path, member: str | None
) -> _ReadText:
    pieces = JsonChunks(stream.read)
    try:
        _collect_columns(stream, pieces, columns)
    except LookupError:
        raise not_a_trace(path, member, stream.broken) from None
    finally:
        stream.close()
    lost = tuple(filter(None, (stream.broken, pieces.lost_text)))
    return _ReadText(pieces.header, lost, pieces.cut, stream.count)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Disable the garbage collector, which would traverse millions of young events in vain."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _collect_columns(stream: ByteStream, pieces: JsonChunks, columns: EventColumns) -> None:
    count = last_useful = 0
    for events, text in pieces:
        columns.add_piece(events, text)
        if columns.event_count > count:
            count, last_useful = columns.event_count, stream.count
        elif stream.count - last_useful > _BARREN_BYTES:
            stream.broken = f"reading stopped after {_BARREN_BYTES >> 30} GiB without an event"
            return


def _explain_empty(
    path: Path, member: str | None, columns: EventColumns, lost: tuple[str, ...]
) -> NotATraceError | BrokenTraceError:
    shown = f"{path}!{member}" if member else str(path)
    why = lost[0] if lost else ""
    if tool := identify_chrome_trace(head_of(path, member)):
        return NotATraceError(
            f"{shown} is not a recording that whyidle reads.",
            why=f"It looks like {tool[0]}.",
            hint=tool[1],
        )
    if set(columns.categories) == {"Trace"} and not why:
        return NotATraceError(
            f"{shown} is a PyTorch profiler trace without any recorded operator.",
            why="No operator ran in the recorded thread while the profiler was on.",
            hint="Start the profiler in the thread and process that trains, and export before its "
            "schedule begins a new cycle (repeat=1).",
        )
    if columns.categories and not why:
        kinds = ", ".join(sorted(map(repr, columns.categories))[:5])
        if set(columns.categories) == {""}:
            return NotATraceError(
                f"{shown} is a Chrome trace, but not from PyTorch's profiler.",
                why="Its events have no category, as in the copy that JAX and TensorFlow write "
                "for trace viewers.",
                hint="Pass the profile itself (.xplane.pb), or the folder that TensorBoard reads.",
            )
        return NotATraceError(
            f"{shown} is a Chrome trace, but not from PyTorch's profiler.",
            why=f"Its events are of the kinds {kinds[:200]}.",
            hint="Export one with prof.export_chrome_trace('trace.json.gz').",
        )
    why = why or "its event list contains no event with a valid time"
    return BrokenTraceError(
        f"No event could be read from {shown}.",
        why=f"{why[0].upper()}{why[1:]}.",
        hint="Export the trace again, and let the profiler finish before copying the file.",
    )


def _build_timeline(
    path: Path, member: str | None, columns: EventColumns, text: _ReadText
) -> Timeline:
    header = text.header
    device, memory = columns.device_events(), columns.memory_samples()
    host = without_closures(columns.host_events(), tuple(columns.names))
    place = place_of(header, path, member)
    # since about 2024 times count from ``baseTimeNanoseconds``; before, from 1970
    base_ns, offset = columns.base_ns, to_natural(header.get("baseTimeNanoseconds")) or 0
    numbers = device.device[device.device >= 0]
    main = int(np.bincount(numbers).argmax()) if len(numbers) else None
    timeline = Timeline(
        names=tuple(columns.names),
        details=columns.event_details(),
        threads=columns.thread_names(),
        host=host,
        device=device,
        memory=memory,
        source=Source(
            path=f"{path}!{member}" if member else str(path),
            format="kineto",
            events=columns.events,
            bytes=text.size,
            notes=_column_notes(columns),
            lost="; ".join(text.lost) or None,
            origin_ns=columns.base_ns,
        ),
        base_ns=base_ns + offset if base_ns + offset < _AFTER_2100_NS else base_ns,
        info=device_of(header, columns.names, columns.categories, main),
        rank=place.rank,
        world_size=place.world_size,
        backend=place.backend,
        hostname=place.hostname,
        framework="pytorch",
        vocabulary=VOCABULARY,
        cut=text.cut,
    )
    return split_processes(timeline, columns.device_thread)


def _column_notes(columns: EventColumns) -> tuple[str, ...]:
    notes = []
    if columns.unset:
        notes.append(f"events without a time (0) were left out: {columns.unset}")
    if columns.ignored:
        notes.append(f"{columns.ignored} events with impossible times were ignored")
    if columns.categories.get("cuda_profiler_range"):
        notes.append("recorded in CUPTI's profiler-range mode, in which kernels have no times")
    return tuple(notes)
