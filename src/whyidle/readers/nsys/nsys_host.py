"""Host threads in an Nsight Systems export: CUDA calls, NVTX ranges, module loading, and the steps
that the ranges show."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyidle.model.timeline import HostKind
from whyidle.readers._events.event_rows import FEWEST_STEPS, EventRows, merge_spans
from whyidle.readers.nsys.nsys_device import name_rows, text_of
from whyidle.readers.nsys.sqlite_file import Database

I64 = NDArray[np.int64]
_SPAN: Final = {"start": 0, "end": 0, "globalTid": 0}
_CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_VERSION: Final = re.compile(r"_v\d+(_pt[sd][zs])?$")
_NVTX_RANGES: Final = "eventType IN (59, 60, 70, 71) AND end NOT NULL"
"""ranges pushed and popped, or started and ended; the others are marks, domains and categories"""
_EMIT_NVTX: Final = re.compile(r", (?:seq|op_id|sizes|op_ids|input_op_ids) = .*$")
_MODULE_LOADING: Final = "overheadType IN (6, 7, 393216, 458752)"
"""CUPTI's overhead of loading modules, when used first or by the driver"""
_NUMBER: Final = re.compile(r"\d+")
_STEP_NAME: Final = re.compile(r"iter|batch|train|step|epoch", re.I)
_COVER: Final = 0.7
"""ranges that are steps cover at least this much of the time between the first and the last: those
around the optimizer alone, which are often called step, do not"""
_WORTH_A_NOTE: Final = 0.1


class _Ranges(NamedTuple):
    start: I64
    end: I64
    thread: I64
    name: list[str]


def add_host(database: Database, rows: EventRows, process: int | None) -> None:
    """Append what the threads of a process did."""
    where = database.of_process(_CALLS, "globalTid", process)
    # version 2022 has each call twice: class 67 is the tool's own callback
    classes = " AND ".join(filter(None, (where, "eventClass IN (0, 1)")))
    has_class = "eventClass" in database.tables.get(_CALLS, ())
    wanted = {**_SPAN, "correlationId": -1, "nameId": -1}
    calls = database.numbers(_CALLS, wanted, classes if has_class else where)
    texts = text_of(database, np.unique(calls["nameId"]))
    texts = {key: _VERSION.sub("", text) for key, text in texts.items()}
    rows.add_host(
        calls["start"],
        calls["end"],
        kind=HostKind.RUNTIME,
        name=name_rows(rows, calls["nameId"], texts, "(unnamed call)"),
        thread=_code_threads(rows, calls["globalTid"]),
        corr=calls["correlationId"],
    )
    ranges = _read_ranges(database, process)
    operators = np.array([name.startswith("aten::") for name in ranges.name], dtype=bool)
    rows.add_host(
        ranges.start,
        ranges.end,
        kind=np.where(operators, int(HostKind.OP), int(HostKind.ANNOTATION)),
        name=rows.name_codes(ranges.name),
        thread=_code_threads(rows, ranges.thread),
    )
    _add_module_loading(database, rows, process)
    _add_steps(rows, ranges, calls["globalTid"])


def _code_threads(rows: EventRows, ids: I64) -> NDArray[np.int16]:
    unique, inverse = np.unique(ids, return_inverse=True)
    labels = [f"{key >> 24 & 0xFFFFFF}/{key & 0xFFFFFF}" for key in unique.tolist()]
    codes = np.array([rows.threads[label] for label in labels], dtype=np.int16)
    return codes[inverse]


def _read_ranges(database: Database, process: int | None) -> _Ranges:
    table = "NVTX_EVENTS"
    if "eventType" not in database.tables.get(table, ()):
        return _Ranges(*(np.empty(0, np.int64),) * 3, [])
    owner = database.of_process(table, "globalTid", process)
    where = " AND ".join(filter(None, (_NVTX_RANGES, owner)))
    columns = database.numbers(table, {**_SPAN, "textId": -1}, where)
    texts = text_of(database, np.unique(columns["textId"]))
    own = [text for text, _ in database.pairs(table, "text", "eventType", where)]
    own = own or [None] * len(columns["start"])
    names = [
        _EMIT_NVTX.sub("", str(text)) if text else texts.get(key, "")
        for text, key in zip(own, columns["textId"].tolist(), strict=True)
    ]
    names = [_EMIT_NVTX.sub("", name) for name in names]
    return _Ranges(columns["start"], columns["end"], columns["globalTid"], names)


def _add_module_loading(database: Database, rows: EventRows, process: int | None) -> None:
    table = "CUPTI_ACTIVITY_KIND_OVERHEAD"
    if "overheadType" not in database.tables.get(table, ()):
        return
    owner = database.of_process(table, "globalTid", process)
    where = " AND ".join(filter(None, (_MODULE_LOADING, owner)))
    loads = database.numbers(table, _SPAN, where)
    if len(loads["start"]):
        rows.add_host(
            loads["start"],
            loads["end"],
            kind=HostKind.OVERHEAD,
            name=rows.names["Lazy Function Loading"],
            thread=_code_threads(rows, loads["globalTid"]),
        )


def _add_steps(rows: EventRows, ranges: _Ranges, callers: I64) -> None:
    """Mark the ranges that are steps: of one name but for its numbers, on the thread with the most
    CUDA calls, that follow one another and cover the time."""
    threads, counts = np.unique(callers if len(callers) else ranges.thread, return_counts=True)
    if not len(threads):
        return
    own = np.flatnonzero(ranges.thread == threads[counts.argmax()])
    stems: dict[str, list[int]] = {}
    for row in own.tolist():
        stems.setdefault(_NUMBER.sub("", ranges.name[row]), []).append(row)
    best = max(
        (
            (
                bool(_STEP_NAME.search(stem)),
                float((ranges.end[found] - ranges.start[found]).mean()),
                found,
            )
            for stem, listed in stems.items()
            if _are_steps(ranges, found := np.array(listed))
            and not stem.startswith("aten::")
            and (_STEP_NAME.search(stem) or not _are_parts(ranges, own, found))
        ),
        key=lambda candidate: candidate[:2],
        default=None,
    )
    if best is None:
        return
    found = best[2]
    rows.add_host(
        ranges.start[found],
        ranges.end[found],
        kind=HostKind.ANNOTATION,
        name=rows.names[f"step of {_NUMBER.sub('N', ranges.name[int(found[0])])}"],
        thread=_code_threads(rows, ranges.thread[found]),
    )


def _are_steps(ranges: _Ranges, found: I64) -> bool:
    if len(found) < FEWEST_STEPS:
        return False
    order = found[np.argsort(ranges.start[found], kind="stable")]
    start, end = ranges.start[order], ranges.end[order]
    if (start[1:] < end[:-1]).any():
        return False
    return bool((end - start).sum() >= _COVER * (end[-1] - start[0]) > 0)


def _are_parts(ranges: _Ranges, own: I64, found: I64) -> bool:
    """Whether all lie in one other range of the thread: layers of a model, or parts of a step."""
    first, last = ranges.start[found].min(), ranges.end[found].max()
    around = (ranges.start[own] <= first) & (ranges.end[own] >= last)
    return bool(np.setdiff1d(own[around], found).size)


def longest_wait(database: Database, process: int | None) -> str:
    """A note on the call of the operating system in which the thread with the most CUDA calls spent
    most of its time; empty if that is little. What it waits for, the recording does not tell."""
    where = database.of_process(_CALLS, "globalTid", process)
    calls = database.numbers(_CALLS, _SPAN, where)
    if not len(calls["start"]):
        return ""
    threads, counts = np.unique(calls["globalTid"], return_counts=True)
    thread = int(threads[counts.argmax()])
    extent = int(calls["end"].max() - calls["start"].min())
    waits = database.numbers(
        "OSRT_API", {**_SPAN, "nameId": -1}, f"CAST(globalTid AS INTEGER) = {thread}"
    )
    totals = {}
    for name in np.unique(waits["nameId"]).tolist():
        own = waits["nameId"] == name
        start, end = merge_spans(waits["start"][own], waits["end"][own])
        totals[name] = int((end - start).sum())
    if not totals or extent <= 0:
        return ""
    name = max(totals, key=lambda key: totals[key])
    if totals[name] < _WORTH_A_NOTE * extent:
        return ""
    text = text_of(database, np.array([name])).get(name, "a system call")
    share = min(1.0, totals[name] / extent)
    return f"the launching thread spent {share:.0%} of the time in {text} of the operating system"
