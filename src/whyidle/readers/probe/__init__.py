"""Files of our own probe inside a watched command: one Timeline per process that trained. A run's
folder holds, per process, ``PID.facts.json``, ``PID.spans``, ``PID.samples`` and their texts; see
``whyidle.probe.wire`` for the layout. Files may end anywhere: a partial record at the end is
dropped. Stack samples are only decoded here; ``analysis.sampling`` interprets them.

When the device ran the compiled steps of a watched process.

The steps are called on one thread and run beside it, one after the other. How long one runs was
measured in a few of them; in every step the device was found idle or not when the next one was
called, and after each read that waited. Steps therefore end their measured lengths after the first
of them was called, but never before the last moment at which the device was known to work, nor
after the first at which it was found idle.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.errors import BrokenTraceError
from whyidle.frameworks import jax, tensorflow, torch
from whyidle.frameworks.jax.names import VOCABULARY as JAX
from whyidle.frameworks.tensorflow.names import VOCABULARY as TENSORFLOW
from whyidle.frameworks.torch.names import VOCABULARY as PYTORCH
from whyidle.model.device_timestamps import MARK
from whyidle.model.process_facts import ProcessFacts
from whyidle.model.roles import Role, Vocabulary
from whyidle.model.stack_samples import StackSamples
from whyidle.model.timeline import (
    CpuPace,
    DeviceEvents,
    DeviceInfo,
    HostEvents,
    HostKind,
    MemorySamples,
    Source,
    Timeline,
)
from whyidle.probe import wire
from whyidle.probe.wire import split_name
from whyidle.readers._events.trace_header import to_natural
from whyidle.readers.kineto.optimizer_closures import without_closures
from whyidle.readers.probe.loader_records import (
    read_document,
    read_lines,
    read_loading,
    read_records,
)
from whyidle.readers.probe.process_facts import read_facts
from whyidle.readers.probe.samples import SAMPLE, decode_samples

DEVICE = "device"
"""name of the thread that stands for the device"""
NEAREST = 5
I64 = NDArray[np.int64]


Recorded = tuple[HostEvents, list[str], list[str]]


def with_executions(
    events: HostEvents, names: list[str], roles: list[str], thread: int
) -> Recorded:
    """Return events, names and roles with one operator on ``thread`` per compiled step, in place of
    the calls' own operators and of what was measured."""
    coded = np.array([*roles, ""])[events.name]
    calls = (coded == wire.OPTIMIZER) & (events.kind == HostKind.ANNOTATION)
    measured, idle = coded == wire.EXECUTION, coded == wire.DEVICE_IDLE
    rows = np.flatnonzero(calls)
    if not len(rows):
        return events, names, roles
    compiling = np.isin(coded, (wire.COMPILE, wire.RECOMPILE))
    begin = _after_compiling(events, rows, compiling)
    length = _measured_lengths(events, names, rows, np.flatnonzero(measured))
    start, end = _run_steps(begin, events.end[rows], length, events.take_rows(idle))
    called, of_call = np.unique(events.name[rows], return_inverse=True)
    runs = HostEvents.from_columns(
        start, end, kind=HostKind.OP, name=len(names) + of_call, thread=thread
    )
    kept = events.take_rows(~(measured | idle | (coded == wire.OPTIMIZER_OPERATORS)))
    own = [names[i] for i in called]
    return kept.join(runs), [*names, *own], [*roles, *[wire.EXECUTION] * len(own)]


def _after_compiling(events: HostEvents, rows: I64, compiling: NDArray[np.bool_]) -> I64:
    """When each call can have begun to run: after the compilation inside it."""
    ends = np.sort(events.end[compiling])
    if not len(ends):
        return events.start[rows]
    last = np.searchsorted(ends, events.end[rows], side="right") - 1
    return np.maximum(events.start[rows], np.where(last >= 0, ends[np.maximum(last, 0)], 0))


def _measured_lengths(events: HostEvents, names: list[str], rows: I64, measured: I64) -> I64:
    """Length of each call: the median of the nearest ``NEAREST`` measurements of the same function,
    as a core that other threads take lengthens one; 0 without any."""
    lengths = np.zeros(len(rows), np.int64)
    for number in np.unique(events.name[rows]):
        same = measured[[names[i] in names[number] for i in events.name[measured]]]
        if len(same):
            own = events.name[rows] == number
            away = np.abs(events.start[same][:, None] - events.start[rows[own]])
            near = same[np.argsort(away, axis=0, kind="stable")[:NEAREST]]
            lengths[own] = np.median(events.end[near] - events.start[near], axis=0)
    return lengths


def _run_steps(begin: I64, called: I64, length: I64, idle: HostEvents) -> tuple[I64, I64]:
    """Begin and end of the steps on the device, which runs them in order. Where it did not run dry
    between several calls, the host ran ahead: these steps share the time equally."""
    order = np.argsort(idle.end, kind="stable")
    found, busy = idle.end[order], idle.start[order]
    following = np.append(begin[1:], np.iinfo(np.int64).max)
    mark = np.searchsorted(found, called)
    dry = np.append(found, np.iinfo(np.int64).max)[mark] <= following
    dry[-1] = True
    start, end = begin.copy(), begin.copy()
    first = 0
    for last in np.flatnonzero(dry).tolist():
        rows = slice(first, last + 1)
        until = int(begin[first] + length[rows].sum())
        if mark[last] < len(found):
            until = int(min(max(until, busy[mark[last]]), found[mark[last]]))
        until = max(until, int(begin[last]))
        edges = np.linspace(begin[first], until, last - first + 2).astype(np.int64)
        start[rows], end[rows] = edges[:-1], edges[1:]
        first = last + 1
    return start, end


SUFFIXES = (".spans",)
MAGIC = b"whyidle spans 1\n"

_SPAN_FIELDS = {
    "start": "<i8",
    "end": "<i8",
    "thread": "<u8",
    "name": "<u4",
    "kind": "u1",
    "_": "V3",
}
SPAN = np.dtype(list(_SPAN_FIELDS.items()))
CLOCK = np.dtype([("time", "<i8"), ("ran", "<i8"), ("queued", "<i8"), ("thread", "<u8")])

_NEVER = (1 << 63) - 1
FRAMEWORKS = {
    "torch": (torch.NAME, PYTORCH),
    "tensorflow": (tensorflow.NAME, TENSORFLOW),
    "jax": (jax.NAME, JAX),
}
"""the adapter of a process -> name and vocabulary of its framework"""
SOURCES = "sources.json"
"""the user's files named by the run's stacks -> their text; null if not stored"""


def sniff(head: bytes) -> bool:
    """Return whether a file's first bytes are those of a process's spans."""
    return head.startswith(MAGIC)


def framework_of(process: ProcessFacts) -> tuple[str, Vocabulary]:
    """Return name and vocabulary of a process's framework; older recordings are of PyTorch."""
    return FRAMEWORKS.get(process.framework or "torch", FRAMEWORKS["torch"])


def trained_processes(folder: Path) -> list[str]:
    """Return the ids of the processes that trained (``ID-2``: after an ``exec``)."""
    reported = {path.name.split(".")[0] for path in folder.glob("*.facts.json")}
    spans = {path.name.split(".")[0] for path in folder.glob("*.spans")} - reported
    stepped = {pid for pid in spans if numbers_of(folder / f"{pid}.names", Role.OPTIMIZER)}
    return sorted(reported | stepped)


def numbers_of(names: Path, role: Role) -> list[int]:
    """Return the numbers of the names of a process's spans with a role."""
    split_names = [split_name(line) for line in read_lines(names)]
    plays = PYTORCH.plays  # names without a role are of recordings of PyTorch
    return [i for i, (reported, label) in enumerate(split_names) if plays(role, label, reported)]


def untrained_processes(folder: Path) -> list[str]:
    """Return the ids of the processes that loaded the framework and did not train."""
    started = {path.name.split(".")[0] for path in folder.glob("*.seen.json")}
    return sorted(started - set(trained_processes(folder)))


def load(path: Path) -> Timeline:
    """Read one process: ``path`` is its ``PID.spans`` file.

    Raises:
        BrokenTraceError: nothing in it could be read.
    """
    folder, pid = path.parent, path.name.split(".")[0]
    place = read_document(folder / f"{pid.split('-')[0]}.rank.json")
    paths = (folder / f"{pid}.facts.json", folder / f"{pid}.seen.json")
    facts = read_document(paths[0]) or read_document(paths[1])
    facts |= {key: value for key, value in place.items() if value is not None}
    facts["compile"] = read_document(folder / f"{pid}.compiles.json") or None
    facts["pipelines"] = read_document(folder / f"{pid}.tfdata.json").get("pipelines")
    facts["bursts"] = read_document(folder / f"{pid}.bursts.json")
    facts["cut_short"] = read_document(folder / f"{pid}.trial.json").get("ended") == "stopped"
    for look in ("memory", "model"):
        facts[f"{look}_look"] = read_document(folder / f"{pid}.look-{look}.json") or None
    process = read_facts(facts)
    framework, vocabulary = framework_of(process)
    spans = read_records(path, SPAN, MAGIC)
    samples = read_records(folder / f"{pid}.samples", SAMPLE)
    split_names = [split_name(line) for line in read_lines(folder / f"{pid}.names")]
    names, stacks = [label for _, label in split_names], read_lines(folder / f"{pid}.stacks")
    spans = spans[spans["name"] < len(names)]
    samples = samples[samples["stack"] < len(stacks)]
    if not len(spans) and not len(samples):
        raise BrokenTraceError(
            f"No span could be read from {path}.", hint="Let the command train for a few steps."
        )
    base = int(min(part.min() for part in (spans["start"], samples["time"]) if len(part)))
    threads = np.unique(np.concatenate([spans["thread"], samples["thread"]]))
    calls = HostEvents.from_columns(
        spans["start"] - base,
        spans["end"] - base,
        kind=spans["kind"],
        name=spans["name"],
        thread=np.searchsorted(threads, spans["thread"]),
    )
    roles = [role for role, _ in split_names]
    calls = without_closures(calls.join(), names, by_thread=True)
    switches = process.switches.seen if process.switches else {}
    if process.compiled and not switches.get("jax_disable_jit"):
        calls, names, roles = with_executions(calls, names, roles, len(threads))
    none = np.empty(0, np.int64)
    sources = read_document(folder / SOURCES)
    return Timeline(
        names=tuple(names),
        details=(),
        threads=(*(str(thread) for thread in threads), DEVICE),
        host=calls,
        device=_no_device(),
        memory=MemorySamples(none, none, none),
        source=Source(path=str(path), format="probe", events=len(spans), bytes=spans.nbytes),
        base_ns=base,
        info=_device_info(process),
        rank=to_natural(facts.get("rank")),
        world_size=to_natural(facts.get("world_size")),
        backend=place.get("backend"),
        hostname=place.get("host"),
        framework=framework,
        vocabulary=vocabulary,
        roles=tuple(roles),
        process=process,
        loading=read_loading(folder, pid, base),
        stack_samples=StackSamples(decode_samples(samples, threads, base), tuple(stacks)),
        sources={name: text for name, text in sources.items() if text is not None},
        disturbed=_disturbed_windows(folder, place.get("host"), base),
        pace=_read_pace(read_records(folder / f"{pid}.clock", CLOCK), base),
        marks=_shift_marks(read_records(folder / f"{pid}.device", MARK), base),
    )


def _read_pace(rows: NDArray[Any], base: int) -> CpuPace | None:
    """None if the kernel does not report it or several threads trained."""
    if not len(rows) or (rows["queued"] < 0).any() or len(np.unique(rows["thread"])) > 1:
        return None
    return CpuPace(rows["time"] - base, rows["ran"].copy(), rows["queued"].copy())


def _shift_marks(rows: NDArray[Any], base: int) -> NDArray[Any]:
    """Marks on the timeline's clock; those of an incomplete window are harmless."""
    rows = rows.copy()
    rows["begin"] -= base
    rows["host"] -= base
    return rows


def blank_timeline(path: Path) -> Timeline:
    """Return the timeline of a command without any process recorded from inside."""
    none = np.empty(0, np.int64)
    return Timeline(
        names=(),
        details=(),
        threads=(),
        host=HostEvents.from_columns(none, none, kind=0, name=0, thread=0),
        device=_no_device(),
        memory=MemorySamples(none, none, none),
        source=Source(path=str(path), format="probe"),
    )


def _disturbed_windows(folder: Path, host: object, base: int) -> tuple[tuple[int, int], ...]:
    """Detailed recordings and looks on this host, which also slow other ranks and processes."""
    windows = []
    for path in sorted([*folder.glob("*.bursts.json"), *folder.glob("*.look-*.json")]):
        pid = path.name.split(".")[0].split("-")[0]
        other = read_document(folder / f"{pid}.rank.json").get("host")
        if host is None or other is None or host == other:
            for begin, end in read_document(path).get("windows", ()):
                windows.append((begin - base, (end or _NEVER) - base))
    return tuple(sorted(windows))


def _device_info(facts: ProcessFacts) -> DeviceInfo:
    """The device that the process trained on; an emulated device is always named so."""
    device = facts.device or "cpu"
    kind = device if device in ("cuda", "cpu", "emulated") else "other"
    name = facts.device_name
    if kind == "emulated" and not str(name or "").lower().startswith(kind):
        name = f"{kind} {name or 'accelerator'}"
    return DeviceInfo(kind=kind, name=name)


def _no_device() -> DeviceEvents:
    codes = ["q", "q", "B", "i", "h", "q", "q", "q", "f", "f", "i"]  # in the order of the columns
    return DeviceEvents(*(np.empty(0, code) for code in codes))
