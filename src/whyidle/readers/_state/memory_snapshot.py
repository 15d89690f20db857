"""Memory snapshots of PyTorch's caching allocator: what fills the memory of each device, by the
place that allocated it, and how much of it is fragmented."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from whyidle.model.diagnosis import Place
from whyidle.model.state_records import DeviceMemory, FailedAllocation, HeldMemory, MemorySnapshot
from whyidle.readers._state.stack_places import find_place, to_count

_MOST_HOLDERS = 10
_USED = ("active_allocated", "active_awaiting_free", "active_pending_free")
Holders = dict[int, tuple[int, "Place | None"]]
"""address -> (bytes, place)"""


def read_snapshot(path: str, document: Mapping[str, Any]) -> MemorySnapshot:
    """Interpret a decoded snapshot; what is not as PyTorch writes it is left out."""
    segments = [segment for segment in document["segments"] if isinstance(segment, dict)]
    traces = document.get("device_traces")
    traces = traces if isinstance(traces, list) else []
    numbers = {to_count(segment.get("device")) for segment in segments}
    numbers |= {i for i, trace in enumerate(traces) if trace}
    devices = [
        _read_device(
            number,
            [segment for segment in segments if to_count(segment.get("device")) == number],
            _dictionaries(traces[number] if number < len(traces) else None),
        )
        for number in sorted(numbers)
    ]
    return MemorySnapshot(path, tuple(devices))


def _dictionaries(values: Any) -> list[dict[str, Any]]:
    return (
        [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    )


def _read_device(
    number: int, segments: list[dict[str, Any]], trace: list[dict[str, Any]]
) -> DeviceMemory:
    held: Holders = {}
    reserved = stranded = largest = 0
    for segment in segments:
        reserved += to_count(segment.get("total_size"))
        at, gaps, used = to_count(segment.get("address")), [], False
        for block in _dictionaries(segment.get("blocks")):
            size = to_count(block.get("size"))
            at = to_count(block.get("address")) or at
            if block.get("state") in _USED:
                used, held[at] = True, (size, find_place(_frames_of(block)))
            else:
                gaps.append(size)
            at += size
        if used:
            stranded += sum(gaps)
            largest = max([largest, *gaps])
    allocated = sum(size for size, _ in held.values())
    peak, holders = _find_peak(held, trace)
    failed = [_read_failure(event) for event in trace if event.get("action") == "oom"]
    return DeviceMemory(
        device=number,
        reserved=reserved,
        allocated=allocated,
        stranded=stranded,
        largest_gap=largest,
        peak=peak,
        holders=holders,
        failed=tuple(failed),
        has_history=bool(trace),
    )


def _read_failure(event: Mapping[str, Any]) -> FailedAllocation:
    free = event.get("device_free")
    return FailedAllocation(to_count(event.get("size")), None if free is None else to_count(free))


def _frames_of(block: Mapping[str, Any]) -> Any:
    """The stack of a block; before 2023 it stood in the block's history."""
    if block.get("frames"):
        return block["frames"]
    history = _dictionaries(block.get("history"))
    return history[0].get("frames") if history else None


def _find_peak(held: Holders, trace: list[dict[str, Any]]) -> tuple[int, tuple[HeldMemory, ...]]:
    """The most memory in use, and its holders. From the end, the history is undone event by event:
    what was freed was held before, and what was allocated was not."""
    now = dict(held)
    total = best = sum(size for size, _ in now.values())
    at_best, changes = len(trace), list[int]()
    for i in range(len(trace) - 1, -1, -1):
        total += _undo_event(now, trace[i])
        changes.append(i)
        if total > best:
            best, at_best = total, i
    now = dict(held)
    for event in reversed(trace[at_best:]):
        _undo_event(now, event)
    return best, _rank_holders(now.values())


def _undo_event(now: Holders, event: Mapping[str, Any]) -> int:
    """Undo one event. Returns the change of the memory in use."""
    action, address = event.get("action"), to_count(event.get("addr"))
    size = to_count(event.get("size"))
    if action == "free_completed":
        now[address] = size, find_place(event.get("frames"))
        return size
    if action == "alloc" and address in now:
        return -now.pop(address)[0]
    return 0


def _rank_holders(values: Iterable[tuple[int, Place | None]]) -> tuple[HeldMemory, ...]:
    totals: Counter[Place | None] = Counter()
    for size, place in values:
        totals[place] += size
    return tuple(HeldMemory(place, size) for place, size in totals.most_common(_MOST_HOLDERS))
