"""Shares of the step from the emulated device's own account of when it was busy, and with what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean

import msgspec

from clinic.times import WARM, Times

Spans = list[tuple[float, float]]
KINDS = {
    "compute": "compute",
    "communication": "communication",
    "copy_in": "transfer",
    "copy_out": "transfer",
}
"""kind of work -> bucket, in the order in which a moment is given away"""


class Stream(msgspec.Struct):
    """One queue: ``[begin, end, kind, items, bytes]`` of each stretch."""

    busy: list[tuple[int, int, str, int, int]]


class Account(msgspec.Struct):
    """One device."""

    streams: list[Stream]


class Document(msgspec.Struct):
    """What one process wrote at its end."""

    devices: list[Account]


def shares(documents: Sequence[bytes], times: Times) -> dict[str, float] | None:
    """Of the steady part of the run, by bucket: computing; communicating alone; copying alone.
    The mean over devices; None where none was used."""
    since = times.marks[0] + WARM * (times.marks[-1] - times.marks[0])
    window = (since * 1e9, times.marks[-1] * 1e9)
    told = [msgspec.json.decode(text, type=Document) for text in documents]
    found = [_device(device, window) for document in told for device in document.devices]
    if not found:
        return None
    return {bucket: mean(one[bucket] for one in found) for bucket in dict.fromkeys(KINDS.values())}


def _device(device: Account, window: tuple[float, float]) -> dict[str, float]:
    taken: Spans = []
    found = {}
    for bucket in dict.fromkeys(KINDS.values()):
        own = [
            (max(begin, window[0]), min(end, window[1]))
            for stream in device.streams
            for begin, end, kind, _, _ in stream.busy
            if KINDS.get(kind) == bucket and end > window[0] and begin < window[1]
        ]
        before = length(taken)
        taken = union([*taken, *own])
        found[bucket] = (length(taken) - before) / (window[1] - window[0])
    return found


def union(spans: Iterable[tuple[float, float]]) -> Spans:
    """Disjoint and in order."""
    merged: Spans = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def length(spans: Spans) -> float:
    """Of disjoint spans together."""
    return sum(end - begin for begin, end in spans)
