"""Nsight Systems exports (SQLite), of every version: one recording per process that used a GPU."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from whyidle.errors import BrokenTraceError, NotATraceError
from whyidle.frameworks.torch.names import VOCABULARY
from whyidle.model.timeline import Source, Timeline
from whyidle.readers._events.event_rows import EventRows
from whyidle.readers._files.byte_stream import Progress
from whyidle.readers.nsys.nsys_device import add_device, device_of
from whyidle.readers.nsys.nsys_host import add_host, longest_wait
from whyidle.readers.nsys.sqlite_file import DAMAGED, Database, open_database

SUFFIXES = (".sqlite", ".sqlite.gz", ".sqlite3")
_MAGIC = re.compile(rb"SQLite format 3\0..[\1\2][\1\2].\x40\x20\x20", re.DOTALL)
"""with the constants of every database; one of another program is named by its tables"""
_OURS = ("StringIds", "TARGET_INFO_SESSION_START_TIME", "ANALYSIS_DETAILS")
_WORK = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_RUNTIME")
_SMALL = 0.01
"""a process with a smaller share of the work than this is no rank of the job"""


def sniff(head: bytes) -> bool:
    """Return whether a file's first (decompressed) bytes have this format."""
    return _MAGIC.match(head) is not None


def load(path: Path, *, member: str | None = None, progress: Progress | None = None) -> Timeline:
    """Read an export: a file or a zip's ``member``. The recordings of further processes are the
    ``others`` of the first.

    Raises:
        InputError: the file cannot be opened.
        NotATraceError: it is a database of another kind.
        BrokenTraceError: nothing in it could be read.
    """
    shown = f"{path}!{member}" if member else str(path)
    try:
        with closing(open_database(path, member, progress)) as database:
            if not any(database.has_table(name) for name in (*_OURS, *_WORK)):
                raise _foreign(shown, database)
            timelines = [
                _load_process(database, shown, process) for process in _processes(database)
            ]
            size = database.size
    except DAMAGED as error:
        raise BrokenTraceError(
            f"No event could be read from {shown}.",
            why=f"The database is damaged: {error}.",
            hint="Copy the file again, or export the report again: "
            "nsys export --type sqlite -o out.sqlite REPORT.nsys-rep",
        ) from error
    used = [timeline for timeline in timelines if len(timeline.host) + len(timeline.device)]
    if not used:
        raise BrokenTraceError(
            f"No event could be read from {shown}.",
            why="It holds neither GPU work nor CUDA calls nor NVTX ranges.",
            hint="Record with nsys profile --trace=cuda,nvtx,osrt.",
        )
    return _join_processes(used, size)


def _join_processes(timelines: list[Timeline], size: int) -> Timeline:
    first = timelines[0]
    first = replace(first, source=replace(first.source, bytes=size))
    if len(timelines) == 1:
        return first
    ranks = [
        replace(one, rank=i, world_size=len(timelines))
        for i, one in enumerate([first, *timelines[1:]])
    ]
    note = f"the file holds {len(ranks)} processes, which are judged as ranks of one job"
    source = replace(ranks[0].source, notes=(*ranks[0].source.notes, note))
    return replace(ranks[0], source=source, others=tuple(ranks[1:]))


def _foreign(shown: str, database: Database) -> NotATraceError:
    listed = ", ".join(sorted(database.tables)[:5]) or "none"
    return NotATraceError(
        f"{shown} is not an export of Nsight Systems.",
        why=f"It is an SQLite database with the tables: {listed[:200]}.",
        hint="Pass an export (nsys export --type sqlite -o out.sqlite REPORT.nsys-rep), or a trace "
        "of PyTorch's profiler.",
    )


def _processes(database: Database) -> list[int | None]:
    """Ids of the processes that used a GPU, in order; None: the export does not say."""
    counts: dict[int, int] = {}
    for table in _WORK[:2]:
        for process, count in database.count_processes(table, "globalPid"):
            counts[process] = counts.get(process, 0) + count
    if not counts:
        calls = (*database.count_processes(_WORK[2], "globalTid"),)
        calls = calls or (*database.count_processes("NVTX_EVENTS", "globalTid"),)
        return [max(calls, key=lambda pair: pair[1])[0]] if calls else [None]
    most = max(counts.values())
    return [process for process, count in sorted(counts.items()) if count >= _SMALL * most]


def _load_process(database: Database, shown: str, process: int | None) -> Timeline:
    rows = EventRows()
    devices = add_device(database, rows, process)
    add_host(database, rows, process)
    host, device, base = rows.build()
    began = database.number("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
    notes = [f"{rows.ignored} events with impossible times were ignored"] if rows.ignored else []
    if wait := longest_wait(database, process):
        notes.append(wait)
    return rows.make_timeline(
        host,
        device,
        source=Source(
            path=shown,
            format="nsys",
            events=len(host) + len(device) + rows.ignored,
            notes=tuple(notes),
            lost=database.lost,
            origin_ns=base,
        ),
        base_ns=max(0, base + began),
        info=device_of(database, devices),
        framework=_framework_of(rows),
        vocabulary=VOCABULARY,
        cut=database.lost is not None,
    )


def _framework_of(rows: EventRows) -> str | None:
    names = " ".join(list(rows.names)[:20_000])
    return "pytorch" if "at::native" in names or "aten::" in names or "c10::" in names else None
