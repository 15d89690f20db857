"""Collects pieces of decoded events into the columns of a ``Timeline``."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from whyidle.importers._events import (
    DEVICE_CATEGORIES,
    Args,
    Event,
    Interner,
    detail_of,
    host_kind,
    integers,
)
from whyidle.model.timeline import DeviceEvents, HostEvents, HostKind, MemorySamples

_ANNOTATION = re.compile(
    r"^(ProfilerStep#|Optimizer\.|enumerate\(DataLoader\)|nccl:|gloo:|## |DistributedDataParallel)"
)
_LIMIT_NS = 1 << 61


class Columns:
    """Grows column by column; ``host()``, ``device()`` and ``memory()`` close it."""

    def __init__(self) -> None:
        self.names = Interner()
        self.threads = Interner()
        self.details = Interner()
        self.labels: dict[str, str] = {}
        self.events = 0
        self.ignored = 0
        self.base_us: float | None = None
        self._kinds: dict[str, int | None] = {}
        self._host: list[tuple[NDArray[np.generic], ...]] = []
        self._device: list[tuple[NDArray[np.generic], ...]] = []
        self._memory: list[NDArray[np.int64]] = []

    def add(self, piece: list[Event]) -> None:
        """Append one piece; events of categories that carry no evidence are dropped."""
        self.events += len(piece)
        timed = [event for event in piece if event.ph == "X"]
        for event in piece:
            if event.ph == "i" and event.name == "[memory]" and event.args.device_type == 1:
                break
        else:
            event = None  # type: ignore[assignment]
        if event is not None:
            self._add_memory(piece)
        if self.base_us is None and timed:
            first = min((e.ts for e in timed if e.ts == e.ts and abs(e.ts) < 1e18), default=0.0)
            self.base_us = float(int(first))
        host, device = [], []
        for event in timed:
            category = event.cat
            if category in DEVICE_CATEGORIES:
                device.append(event)
            elif category in self._kinds:
                if self._kinds[category] is not None:
                    host.append(event)
            else:
                self._learn(category)
                (device if category.lower() in DEVICE_CATEGORIES else host).append(event)
        self._add_host([event for event in host if self._kinds.get(event.cat) is not None])
        self._add_device(device)

    def _learn(self, category: str) -> None:
        if category.lower() in DEVICE_CATEGORIES:
            DEVICE_CATEGORIES[category] = DEVICE_CATEGORIES[category.lower()]
        kind = host_kind(category)
        self._kinds[category] = None if kind is None else int(kind)

    def _times(self, events: list[Event]) -> tuple[NDArray[np.int64], NDArray[np.int64], list[Event]]:
        base = self.base_us or 0.0
        start = (np.array([event.ts for event in events], dtype=np.float64) - base) * 1e3
        length = np.array([event.dur for event in events], dtype=np.float64) * 1e3
        good = np.isfinite(start) & np.isfinite(length) & (length >= 0)
        good &= (np.abs(start) < _LIMIT_NS) & (length < _LIMIT_NS)
        if not good.all():
            self.ignored += int((~good).sum())
            events = [event for event, keep in zip(events, good, strict=True) if keep]
            start, length = start[good], length[good]
        begin = np.rint(start).astype(np.int64)
        return begin, begin + np.rint(length).astype(np.int64), events

    def _detail(self, args: Args) -> int:
        if args.dims or args.stack or args.collective or args.old_dims:
            return self.details[detail_of(args)]
        return -1

    def _add_host(self, events: list[Event]) -> None:
        if not events:
            return
        start, end, events = self._times(events)
        names, threads, kinds = self.names, self.threads, self._kinds
        self._host.append(
            (
                start,
                end,
                np.array([kinds[event.cat] for event in events], dtype=np.uint8),
                np.array([names[event.name] for event in events], dtype=np.int32),
                np.array([threads[f"{e.pid}/{e.tid}"] for e in events], dtype=np.int64),
                integers([event.args.correlation for event in events]),
                np.array([self._detail(event.args) for event in events], dtype=np.int32),
            )
        )

    def _add_device(self, events: list[Event]) -> None:
        if not events:
            return
        start, end, events = self._times(events)
        args = [event.args for event in events]
        names = self.names
        pids = [event.pid if isinstance(event.pid, int) else -1 for event in events]
        streams = [_stream(e.args.stream if e.args.stream != -1 else e.tid) for e in events]
        self._device.append(
            (
                start,
                end,
                np.array([DEVICE_CATEGORIES[event.cat] for event in events], dtype=np.uint8),
                np.array([names[event.name] for event in events], dtype=np.int32),
                np.clip(
                    integers([a.device if a.device >= 0 else p for a, p in zip(args, pids, strict=True)]),
                    -1,
                    32767,
                ),
                integers(streams),
                integers([a.correlation for a in args]),
                integers([a.size for a in args]),
                np.array([a.blocks_per_sm for a in args], dtype=np.float32),
                np.array([a.occupancy for a in args], dtype=np.float32) / np.float32(100),
                np.array([self._detail(a) for a in args], dtype=np.int32),
            )
        )

    def _add_memory(self, piece: list[Event]) -> None:
        rows = [
            (event.ts, event.args.allocated, event.args.reserved)
            for event in piece
            if event.ph == "i" and event.args.device_type == 1 and event.args.allocated >= 0
        ]
        if not rows:
            return
        base = self.base_us if self.base_us is not None else rows[0][0]
        times = np.rint((np.array([row[0] for row in rows]) - base) * 1e3)
        good = np.isfinite(times)
        column = np.array([(0, *row[1:]) for row in rows], dtype=np.int64)
        column[good, 0] = times[good].astype(np.int64)
        self._memory.append(column[good])

    def host(self) -> HostEvents:
        """All host events, sorted by start (the longer first where two start together)."""
        types = (np.int64, np.int64, np.uint8, np.int32, np.int16, np.int64, np.int32)
        columns = _join(self._host, types)
        self._host.clear()
        events = HostEvents(*columns)  # type: ignore[arg-type]
        events = events.take(np.lexsort((-events.end, events.start)))
        renamed = [i for name, i in self.names.items() if _ANNOTATION.match(name)]
        if renamed:
            is_op = events.kind == HostKind.OP
            events.kind[is_op & np.isin(events.name, renamed)] = HostKind.ANNOTATION
        return events

    def device(self) -> DeviceEvents:
        """All device events, sorted by start."""
        ints = (np.int64, np.int64, np.uint8, np.int32, np.int16, np.int64, np.int64, np.int64)
        columns = _join(self._device, (*ints, np.float32, np.float32, np.int32))
        self._device.clear()
        events = DeviceEvents(*columns)  # type: ignore[arg-type]
        return events.take(np.argsort(events.start, kind="stable"))

    def memory(self) -> MemorySamples:
        """Device memory after each allocator event, by time."""
        rows = np.concatenate(self._memory) if self._memory else np.empty((0, 3), np.int64)
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        return MemorySamples(rows[:, 0], rows[:, 1], rows[:, 2])


def _stream(value: object) -> int:
    if isinstance(value, int):
        return value
    digits = re.search(r"-?\d+", str(value))
    return int(digits.group()) if digits else -1


def _join(
    pieces: list[tuple[NDArray[np.generic], ...]], types: tuple[type[np.generic], ...]
) -> list[NDArray[np.generic]]:
    if not pieces:
        return [np.empty(0, dtype=kind) for kind in types]
    return [
        np.concatenate([piece[i] for piece in pieces]).astype(kind, copy=False)
        for i, kind in enumerate(types)
    ]
