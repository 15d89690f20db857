"""What our own probe wrote inside a watched command: one Timeline per process that trained.

A run's folder holds, per process, ``PID.facts.json``, ``PID.spans``, ``PID.samples`` and their
texts; see ``probe.core.recorder`` for the layout. Files may end anywhere: a torn record at the
end is dropped. Stack samples become Python events that last until the next sample; those inside
the framework's modules count as operators, which on a CPU is the work itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.errors import BrokenTraceError
from whyidle.importers._around import around
from whyidle.importers._asked import Ran, plain, ran, waited
from whyidle.importers._called import Frames
from whyidle.importers._closures import spans_without_closures
from whyidle.importers._doing import alone, doing, single
from whyidle.importers._kept import kept
from whyidle.importers._loading import document, lines, loading, records
from whyidle.importers._lock import false_waits, found_free, taken_us, undelayed, unseen_ends
from whyidle.importers._speaking import dated, looks_of, phase_of, spoken_for
from whyidle.model.marks import MARK
from whyidle.model.timeline import (
    Detail,
    DeviceEvents,
    DeviceInfo,
    HostEvents,
    HostKind,
    Looks,
    MemorySamples,
    Pace,
    Source,
    Timeline,
)
from whyidle.probe.wire import split_name

Mask = NDArray[np.bool_]

SUFFIXES = (".spans",)
MAGIC = b"whyidle spans 1\n"

SPAN = np.dtype(
    [
        ("start", "<i8"),
        ("end", "<i8"),
        ("thread", "<u8"),
        ("name", "<u4"),
        ("kind", "u1"),
        ("_", "V3"),
    ]
)
SAMPLE = np.dtype(
    [("time", "<i8"), ("cpu", "<i8"), ("thread", "<u8"), ("stack", "<u4"), ("held", "<u4")]
)
CLOCK = np.dtype([("time", "<i8"), ("ran", "<i8"), ("queued", "<i8"), ("thread", "<u8")])

GROWN = 1.05
"""memory that ends above this many times what it began with is looked into"""
IDLE = 0.6
"""a thread that was runnable for less than this share of the time between looks was waiting"""
MOMENT_NS = 1_000_000  # in less time than this between looks nothing is said about waiting
BLOCKED = "whyidle::blocked"
LOCKED = "whyidle::locked"
UNSEEN = "whyidle::python"
"""Python of which no look tells the line"""
_NEVER = (1 << 63) - 1
_MEETING = re.compile(
    r"^(gloo|mpi|ucc):|^## work\.wait\(\) ##$|"
    r"^enumerate\(DataLoader\)#_MultiProcessingDataLoaderIter\."
)
"""in these a thread sleeps until the other ranks have come, or a worker's batch"""


def sniff(head: bytes) -> bool:
    """Whether a file's first bytes are those of a process's spans."""
    return head.startswith(MAGIC)


def trained(folder: Path) -> list[str]:
    """The processes of a run that trained, by id (``ID-2``: after it executed itself anew)."""
    told = {path.name.split(".")[0] for path in folder.glob("*.facts.json")}
    spans = {path.name.split(".")[0] for path in folder.glob("*.spans")} - told
    return sorted(told | {pid for pid in spans if _stepped(folder / f"{pid}.names")})


def _stepped(names: Path) -> bool:
    """Whether a process that ended before it wrote what it is had stepped an optimizer."""
    return any(label.startswith("Optimizer.step#") for label in labels(names))


def labels(names: Path) -> list[str]:
    """The labels of a process's spans, by number; their roles are left out."""
    return [split_name(line)[1] for line in lines(names)]


def untrained(folder: Path) -> list[str]:
    """The processes of a run that had the framework and did not train, by id."""
    seen = {path.name.split(".")[0] for path in folder.glob("*.seen.json")}
    return sorted(seen - set(trained(folder)))


def load(path: Path) -> Timeline:
    """Read one process: ``path`` is its ``PID.spans`` file.

    Raises:
        BrokenTraceError: nothing in it could be read.
    """
    folder, pid = path.parent, path.name.split(".")[0]
    place = document(folder / f"{pid.split('-')[0]}.rank.json")
    facts = document(folder / f"{pid}.facts.json") or document(folder / f"{pid}.seen.json")
    facts |= {key: value for key, value in place.items() if value is not None}
    facts["compile"] = document(folder / f"{pid}.compiles.json")
    facts["bursts"] = document(folder / f"{pid}.bursts.json")
    spans = records(path, SPAN, MAGIC)
    samples, locked = plain(records(folder / f"{pid}.samples", SAMPLE))
    names, stacks = labels(folder / f"{pid}.names"), lines(folder / f"{pid}.stacks")
    spans = spans[spans["name"] < len(names)]
    known = samples["stack"] < len(stacks)
    samples, locked = samples[known], None if locked is None else locked[known]
    if not len(spans) and not len(samples):
        raise BrokenTraceError(
            f"No span could be read from {path}.", hint="Let the command train for a few steps."
        )
    spans = spans_without_closures(spans, names)
    found = around(spans, samples, names, facts, _waiting, stacks=stacks)
    if found is not None:
        later = samples["time"] >= found.begin
        samples, locked = samples[later], None if locked is None else locked[later]
        spans = spans[spans["start"] >= found.begin]
        thread = int(facts.get("thread") or 0)
        spans = np.concatenate([spans, found.spans(names, thread, SPAN)])
        facts["around"] = dict(found.told)
    if _grows(facts.get("memory")):
        facts["kept"] = kept(stacks)
    base = int(min(part.min() for part in (spans["start"], samples["time"]) if len(part)))
    if locked is None:
        samples, told = _by_waits(samples, phase_of(spans, samples, names), stacks, facts)
    else:
        samples = waited(samples, locked)
        told = ran(samples, locked, stacks)
    host, all_names, details, threads, looks = _host(
        spans, samples, names, stacks, base, ran=told, alone=alone(facts), single=single(facts)
    )
    none = np.empty(0, np.int64)
    return Timeline(
        names=tuple(all_names),
        details=tuple(details),
        threads=tuple(threads),
        host=host,
        device=_no_device(),
        memory=MemorySamples(none, none, none),
        source=Source(path=str(path), format="probe", events=len(spans), bytes=spans.nbytes),
        base_ns=base,
        info=_device_info(facts),
        rank=_number(facts.get("rank")),
        world_size=_number(facts.get("world_size")),
        backend=place.get("backend"),
        hostname=place.get("host"),
        framework="pytorch",
        settings=facts,
        loading=loading(folder, pid, base),
        looks=looks,
        disturbed=_disturbed(folder, place.get("host"), base),
        pace=_pace(records(folder / f"{pid}.clock", CLOCK), base),
        marks=_marks(records(folder / f"{pid}.device", MARK), base),
    )


def _by_waits(
    samples: NDArray[Any], phases: NDArray[np.int64], stacks: list[str], facts: dict[str, Any]
) -> tuple[NDArray[Any], Ran]:
    """Samples dated when they asked for the interpreter's lock, and which found that Python ran, as
    how long they waited tells. What that leaves open is added to the facts."""
    leaf = [stack.split(";", 1)[0] for stack in stacks]
    facts["taken_us"] = taken = taken_us(samples, leaf)
    free, false = found_free(samples, taken, leaf), false_waits(samples, taken, leaf)
    facts["false_waits"] = false * float(1.0 - free.mean()) if len(samples) else 0.0
    facts["unseen_ends"] = unseen_ends(samples, taken, leaf, (phases % 2 == 0) & ~free, false)
    samples = undelayed(samples, free)
    return samples, Ran(samples["held"] >= taken)


def _pace(rows: NDArray[Any], base: int) -> Pace | None:
    """None where the kernel does not tell, or where several threads trained."""
    if not len(rows) or (rows["queued"] < 0).any() or len(np.unique(rows["thread"])) > 1:
        return None
    return Pace(rows["time"] - base, rows["ran"].copy(), rows["queued"].copy())


def _grows(reads: object) -> bool:
    """Whether the process's memory ended clearly above where its steps began."""
    told = [row for row in reads if row[1]] if isinstance(reads, list) else []
    return len(told) > 1 and told[-1][2] > GROWN * told[0][2]


def _marks(rows: NDArray[Any], base: int) -> NDArray[Any]:
    """Marks on the timeline's clock; those of a window that was cut off are harmless."""
    rows = rows.copy()
    rows["begin"] -= base
    rows["host"] -= base
    return rows


def blank(path: Path) -> Timeline:
    """A command of which no process could be seen from within."""
    none = np.empty(0, np.int64)
    host = HostEvents(
        start=none,
        end=none,
        kind=np.empty(0, np.uint8),
        name=np.empty(0, np.int32),
        thread=np.empty(0, np.int16),
        corr=none,
        detail=np.empty(0, np.int32),
    )
    return Timeline(
        names=(),
        details=(),
        threads=(),
        host=host,
        device=_no_device(),
        memory=MemorySamples(none, none, none),
        source=Source(path=str(path), format="probe"),
    )


def _disturbed(folder: Path, host: object, base: int) -> tuple[tuple[int, int], ...]:
    """Windows in which a process of this host was recorded in detail: ranks wait for each other,
    and processes share cores."""
    found = []
    for path in sorted(folder.glob("*.bursts.json")):
        other = document(folder / f"{path.name.split('.')[0].split('-')[0]}.rank.json").get("host")
        if host is None or other is None or host == other:
            for begin, end in document(path).get("windows", ()):
                found.append((begin - base, (end or _NEVER) - base))
    return tuple(sorted(found))


def _host(
    spans: NDArray[Any],
    samples: NDArray[Any],
    names: list[str],
    stacks: list[str],
    base: int,
    *,
    ran: Ran,
    alone: bool,
    single: bool,
) -> tuple[HostEvents, list[str], list[Detail], list[str], Looks]:
    threads = np.unique(np.concatenate([spans["thread"], samples["thread"]]))
    order = np.argsort(samples["time"], kind="stable")
    samples, ran = samples[order], ran.take(order)
    read = samples["time"].astype(np.int64) + samples["held"].astype(np.int64) * 1000
    shown = samples["stack"]
    samples = dated(spans, samples, names, len(stacks), ran.python)
    borrowed = samples["stack"] != shown
    ran = ran.borrowing(borrowed)
    order = np.argsort(samples["time"], kind="stable")
    samples, read, stacks = samples[order], read[order], [*stacks, ""]
    own = ~borrowed[order]
    ran = ran.take(order)
    leaf = [stack.split(";", 1)[0] or UNSEEN for stack in stacks]
    meeting = np.array([bool(_MEETING.match(name)) for name in names] + [False], dtype=bool)
    met = spans[meeting[spans["name"].astype(np.int64)]]
    idle = _waiting(samples, read, met)
    kinds, blocked, stuck = doing(
        samples, read, stacks, idle, ran.python, alone=alone, single=single
    )
    rows, start, end = spoken_for(spans, samples, names)
    looks = looks_of(spans, samples, names, (rows, end - start), base, unsure=ran.unsure, own=own)
    samples, kinds, blocked, stuck = samples[rows], kinds[rows], blocked[rows], stuck[rows]
    shown = samples["stack"].astype(np.int64)
    if ran.after is not None:
        shown += len(stacks) * (ran.after[rows] & ~blocked & ~stuck)
    frames = Frames([*names, *leaf])
    frames.of(samples, start, end, stacks)
    sampled = samples["stack"].astype(np.int64) + len(names)
    sampled[blocked] = frames.number(BLOCKED)
    sampled[stuck] = frames.number(LOCKED)
    outer = np.array(frames.events, dtype=np.int64).reshape(-1, 4)
    columns = {
        "start": np.concatenate([spans["start"], outer[:, 0], start]) - base,
        "end": np.concatenate([spans["end"], outer[:, 1], end]) - base,
        "kind": np.concatenate([spans["kind"], np.full(len(outer), HostKind.PYTHON), kinds]).astype(
            np.uint8
        ),
        "name": np.concatenate([spans["name"], outer[:, 2], sampled]).astype(np.int32),
        "thread": np.searchsorted(
            threads,
            np.concatenate([spans["thread"], outer[:, 3].astype(np.uint64), samples["thread"]]),
        ).astype(np.int16),
        "corr": np.full(len(spans) + len(outer) + len(samples), -1, np.int64),
        "detail": np.concatenate([np.full(len(spans) + len(outer), -1), shown]).astype(np.int32),
    }
    events = HostEvents(**columns)
    events = events.take(np.lexsort((-events.end, events.start)))
    details = [Detail(stack=stack) for stack in stacks]
    if ran.after is not None:
        details += [Detail(stack=stack, after=True) for stack in stacks]
    return events, frames.names, details, [str(thread) for thread in threads], looks


def _waiting(
    samples: NDArray[Any], start: NDArray[np.int64], met: NDArray[Any] | None = None
) -> NDArray[np.bool_]:
    """Samples between two looks of which the thread was hardly ever runnable, but for its recorded
    waiting for other ranks or for a batch (``met``)."""
    known = np.flatnonzero(samples["cpu"] >= 0)
    found = np.zeros(len(samples), dtype=bool)
    if len(known) < 2:
        return found
    took = np.diff(start[known])
    if met is not None:
        mine = met[np.isin(met["thread"], samples["thread"][known])]
        took = took - np.diff(_covered(mine, start[known]))
    ran = np.diff(samples["cpu"][known].astype(np.int64))
    share = np.where(took < MOMENT_NS, 1.0, ran / np.maximum(took, MOMENT_NS))
    idle = np.append(share < IDLE, False)
    found[known] = idle | np.append(False, idle[:-1]) & (np.append(share, 1.0) < (1 + IDLE) / 2)
    return found


def _covered(spans: NDArray[Any], moments: NDArray[np.int64]) -> NDArray[np.int64]:
    """How much time of disjoint or nested spans lies before each moment, ns."""
    if not len(spans):
        return np.zeros(len(moments), np.int64)
    spans = spans[np.argsort(spans["start"], kind="stable")]
    start, end = spans["start"].astype(np.int64), spans["end"].astype(np.int64)
    start = np.maximum(start, np.append(start[:1], np.maximum.accumulate(end)[:-1]))
    length = np.maximum(end - start, 0)
    edges = np.stack([start, start + length], axis=1).ravel()
    return np.interp(
        moments,
        edges,
        np.repeat(np.cumsum(length), 2) - np.stack([length, np.zeros_like(length)], axis=1).ravel(),
    ).astype(np.int64)


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, int | str) and str(value).isdigit() else None


def _device_info(facts: Mapping[str, Any]) -> DeviceInfo:
    """What the process trained on. An emulated device is called so, whatever its name."""
    told = str(facts.get("device") or "cpu")
    kind = told if told in ("cuda", "cpu", "emulated") else "other"
    name = facts.get("device_name")
    if kind == "emulated" and not str(name or "").lower().startswith(kind):
        name = f"{kind} {name or 'accelerator'}"
    return DeviceInfo(kind=kind, name=name)


def _no_device() -> DeviceEvents:
    none = np.empty(0, np.int64)
    small = np.empty(0, np.float32)
    narrow = np.empty(0, np.int16)
    return DeviceEvents(
        start=none,
        end=none,
        kind=np.empty(0, np.uint8),
        name=np.empty(0, np.int32),
        device=narrow,
        stream=none,
        corr=none,
        size=none,
        blocks_per_sm=small,
        occupancy=small,
        detail=np.empty(0, np.int32),
    )
