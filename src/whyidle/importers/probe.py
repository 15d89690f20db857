"""What our own probe wrote inside a watched command: one Timeline per process that trained.

A run's folder holds, per process, ``PID.facts.json``, ``PID.spans``, ``PID.samples`` and their
texts; see ``whyidle.probe.wire`` for the layout. Files may end anywhere: a torn record at the
end is dropped. Stack samples are only decoded here; ``analysis.sampling`` interprets them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.errors import BrokenTraceError
from whyidle.frameworks.torch.names import VOCABULARY
from whyidle.importers._closures import without_closures
from whyidle.importers._loader_records import read_document, read_lines, read_loading, read_records
from whyidle.importers._process_facts import read_facts
from whyidle.importers._samples import SAMPLE, decode_samples
from whyidle.model.marks import MARK
from whyidle.model.process_facts import ProcessFacts
from whyidle.model.roles import Role
from whyidle.model.stack_samples import StackSamples
from whyidle.model.timeline import (
    CpuPace,
    DeviceEvents,
    DeviceInfo,
    HostEvents,
    MemorySamples,
    Source,
    Timeline,
)
from whyidle.probe.wire import split_name

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
CLOCK = np.dtype([("time", "<i8"), ("ran", "<i8"), ("queued", "<i8"), ("thread", "<u8")])

_NEVER = (1 << 63) - 1
SOURCES = "sources.json"
"""the user's files that stacks of the run name -> their text; null where it was not kept"""


def sniff(head: bytes) -> bool:
    """Whether a file's first bytes are those of a process's spans."""
    return head.startswith(MAGIC)


def trained_processes(folder: Path) -> list[str]:
    """The processes of a run that trained, by id (``ID-2``: after it executed itself anew)."""
    told = {path.name.split(".")[0] for path in folder.glob("*.facts.json")}
    spans = {path.name.split(".")[0] for path in folder.glob("*.spans")} - told
    return sorted(told | {pid for pid in spans if _has_stepped(folder / f"{pid}.names")})


def _has_stepped(names: Path) -> bool:
    """Whether a process that ended before it wrote what it is had stepped an optimizer."""
    return bool(numbers_of(names, Role.OPTIMIZER))


def numbers_of(names: Path, role: Role) -> list[int]:
    """The numbers of the names of a process's spans that play a role."""
    told = [split_name(line) for line in read_lines(names)]
    plays = VOCABULARY.plays
    return [i for i, (given, label) in enumerate(told) if plays(role, label, given)]


def untrained_processes(folder: Path) -> list[str]:
    """The processes of a run that had the framework and did not train, by id."""
    seen = {path.name.split(".")[0] for path in folder.glob("*.seen.json")}
    return sorted(seen - set(trained_processes(folder)))


def load(path: Path) -> Timeline:
    """Read one process: ``path`` is its ``PID.spans`` file.

    Raises:
        BrokenTraceError: nothing in it could be read.
    """
    folder, pid = path.parent, path.name.split(".")[0]
    place = read_document(folder / f"{pid.split('-')[0]}.rank.json")
    facts = read_document(folder / f"{pid}.facts.json") or read_document(
        folder / f"{pid}.seen.json"
    )
    facts |= {key: value for key, value in place.items() if value is not None}
    facts["compile"] = read_document(folder / f"{pid}.compiles.json") or None
    facts["bursts"] = read_document(folder / f"{pid}.bursts.json")
    process = read_facts(facts)
    spans = read_records(path, SPAN, MAGIC)
    samples = read_records(folder / f"{pid}.samples", SAMPLE)
    called = [split_name(line) for line in read_lines(folder / f"{pid}.names")]
    names, stacks = [label for _, label in called], read_lines(folder / f"{pid}.stacks")
    spans = spans[spans["name"] < len(names)]
    samples = samples[samples["stack"] < len(stacks)]
    if not len(spans) and not len(samples):
        raise BrokenTraceError(
            f"No span could be read from {path}.", hint="Let the command train for a few steps."
        )
    base = int(min(part.min() for part in (spans["start"], samples["time"]) if len(part)))
    threads = np.unique(np.concatenate([spans["thread"], samples["thread"]]))
    calls = HostEvents.of(
        spans["start"] - base,
        spans["end"] - base,
        kind=spans["kind"],
        name=spans["name"],
        thread=np.searchsorted(threads, spans["thread"]),
    )
    none = np.empty(0, np.int64)
    return Timeline(
        names=tuple(names),
        details=(),
        threads=tuple(str(thread) for thread in threads),
        host=without_closures(calls.join(), names, by_thread=True),
        device=_no_device(),
        memory=MemorySamples(none, none, none),
        source=Source(path=str(path), format="probe", events=len(spans), bytes=spans.nbytes),
        base_ns=base,
        info=_device_info(process),
        rank=_to_number(facts.get("rank")),
        world_size=_to_number(facts.get("world_size")),
        backend=place.get("backend"),
        hostname=place.get("host"),
        framework="pytorch",
        vocabulary=VOCABULARY,
        roles=tuple(role for role, _ in called),
        process=process,
        loading=read_loading(folder, pid, base),
        stack_samples=StackSamples(decode_samples(samples, threads, base), tuple(stacks)),
        sources={
            n: text for n, text in read_document(folder / SOURCES).items() if text is not None
        },
        disturbed=_disturbed_windows(folder, place.get("host"), base),
        pace=_read_pace(read_records(folder / f"{pid}.clock", CLOCK), base),
        marks=_shift_marks(read_records(folder / f"{pid}.device", MARK), base),
    )


def _read_pace(rows: NDArray[Any], base: int) -> CpuPace | None:
    """None where the kernel does not tell, or where several threads trained."""
    if not len(rows) or (rows["queued"] < 0).any() or len(np.unique(rows["thread"])) > 1:
        return None
    return CpuPace(rows["time"] - base, rows["ran"].copy(), rows["queued"].copy())


def _shift_marks(rows: NDArray[Any], base: int) -> NDArray[Any]:
    """Marks on the timeline's clock; those of a window that was cut off are harmless."""
    rows = rows.copy()
    rows["begin"] -= base
    rows["host"] -= base
    return rows


def blank_timeline(path: Path) -> Timeline:
    """A command of which no process could be seen from within."""
    none = np.empty(0, np.int64)
    return Timeline(
        names=(),
        details=(),
        threads=(),
        host=HostEvents.of(none, none, kind=0, name=0, thread=0),
        device=_no_device(),
        memory=MemorySamples(none, none, none),
        source=Source(path=str(path), format="probe"),
    )


def _disturbed_windows(folder: Path, host: object, base: int) -> tuple[tuple[int, int], ...]:
    """Windows in which a process of this host was recorded in detail: ranks wait for each other,
    and processes share cores."""
    found = []
    for path in sorted(folder.glob("*.bursts.json")):
        other = read_document(folder / f"{path.name.split('.')[0].split('-')[0]}.rank.json").get(
            "host"
        )
        if host is None or other is None or host == other:
            for begin, end in read_document(path).get("windows", ()):
                found.append((begin - base, (end or _NEVER) - base))
    return tuple(sorted(found))


def _to_number(value: object) -> int | None:
    return int(value) if isinstance(value, int | str) and str(value).isdigit() else None


def _device_info(facts: ProcessFacts) -> DeviceInfo:
    """What the process trained on. An emulated device is called so, whatever its name."""
    told = facts.device or "cpu"
    kind = told if told in ("cuda", "cpu", "emulated") else "other"
    name = facts.device_name
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
