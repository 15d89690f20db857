"""Finds and reads files that record a state: memory snapshots, dumps of NCCL's flight recorder, and
NCCL's log. They are pickles, whose content tells which they are, JSON, or text."""

from __future__ import annotations

import io
import pickle
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from whyidle.errors import BrokenTraceError, InputError
from whyidle.model.diagnosis import Place
from whyidle.model.state_records import (
    Collective,
    DeviceMemory,
    FailedAllocation,
    FlightRecord,
    GpuLog,
    GroupHistory,
    HeldMemory,
    MemorySnapshot,
    TransportLog,
)
from whyidle.readers._events.trace_header import rank_in_names, to_natural
from whyidle.readers._files.byte_stream import ByteStream
from whyidle.readers._files.file_identification import HEAD_BYTES, head_of
from whyidle.readers._files.recording_search import MOST_FILES
from whyidle.readers._state.gpu_log import is_gpu_log, read_gpu_log
from whyidle.readers._state.nccl_log import MARK, read_transports

_USED = ("active_allocated", "active_awaiting_free", "active_pending_free")
_LIBRARY = re.compile(r"site-packages|dist-packages|/torch/|/lib/python\d|^<|^\?\?")
Holders = dict[int, tuple[int, "Place | None"]]
"""address -> (bytes, place)"""


def read_snapshot(path: str, document: Mapping[str, Any]) -> MemorySnapshot:
    """Interpret a decoded snapshot; what is not as PyTorch writes it is left out."""
    segments = [segment for segment in document["segments"] if isinstance(segment, dict)]
    traces = document.get("device_traces")
    traces = traces if isinstance(traces, list) else []
    numbers = {_to_count(segment.get("device")) for segment in segments}
    numbers |= {i for i, trace in enumerate(traces) if trace}
    devices = [
        _read_device(
            number,
            [segment for segment in segments if _to_count(segment.get("device")) == number],
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
        reserved += _to_count(segment.get("total_size"))
        at, gaps, used = _to_count(segment.get("address")), [], False
        for block in _dictionaries(segment.get("blocks")):
            size = _to_count(block.get("size"))
            at = _to_count(block.get("address")) or at
            if block.get("state") in _USED:
                used, held[at] = True, (size, _find_place(_frames_of(block)))
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
    return FailedAllocation(_to_count(event.get("size")), None if free is None else _to_count(free))


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
    action, address = event.get("action"), _to_count(event.get("addr"))
    size = _to_count(event.get("size"))
    if action == "free_completed":
        now[address] = size, _find_place(event.get("frames"))
        return size
    if action == "alloc" and address in now:
        return -now.pop(address)[0]
    return 0


def _rank_holders(values: Iterable[tuple[int, Place | None]]) -> tuple[HeldMemory, ...]:
    totals: Counter[Place | None] = Counter()
    for size, place in values:
        totals[place] += size
    return tuple(HeldMemory(place, size) for place, size in totals.most_common(10))


def _find_place(frames: Any) -> Place | None:
    """The innermost frame of the user's own program; of a library's without one; None without a
    frame of Python."""
    listed = (
        [frame for frame in frames if isinstance(frame, dict)] if isinstance(frames, list) else []
    )
    places = [_place_of(frame) for frame in listed if str(frame.get("filename")).endswith(".py")]
    own = (place for place in places if not _LIBRARY.search(place.file or ""))
    return next(own, places[0] if places else None)


def _place_of(frame: dict[str, Any]) -> Place:
    return Place(
        file=str(frame.get("filename")),
        line=_to_count(frame.get("line")) or None,
        function=str(frame.get("name") or "") or None,
    )


def _to_count(value: Any) -> int:
    """A value as an integer of at least 0; 0 if it is none."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return number if 0 <= number < 1 << 63 else 0


PICKLE_FAULTS: tuple[type[Exception], ...] = (
    *(pickle.UnpicklingError, EOFError, AttributeError, IndexError, KeyError, MemoryError),
    *(TypeError, ValueError, OverflowError, RecursionError, ImportError, NotImplementedError),
)
"""what the unpickler raises for bytes that are no pickle of plain data"""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(
            f"it holds an object of {module}.{name}, which is not plain data"
        )


def read_plain_pickle(data: bytes) -> Any:
    """Read a pickle of dictionaries, lists, texts and numbers; all else is refused, so that reading
    a file never runs code that stands in it.

    Raises:
        PICKLE_FAULTS: it is damaged, or holds other objects.
    """
    return _PlainUnpickler(io.BytesIO(data)).load()


_LAST_NUMBER = re.compile(r"(\d{1,6})(?:\.\w+)*$")
_STATES = ("scheduled", "started", "completed")


def read_record(path: Path, document: Mapping[str, Any]) -> FlightRecord:
    """Interpret a decoded dump; what is not as PyTorch writes it is left out."""
    entries: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for entry in document["entries"]:
        if isinstance(entry, dict) and not entry.get("is_p2p"):
            entries[_group_of(entry)].append(entry)
    config = document.get("pg_config")
    members = _members_by_name(config if isinstance(config, dict) else {})
    groups = [
        GroupHistory(name, members.get(name, ()), _collectives(listed))
        for name, listed in sorted(entries.items())
    ]
    rank = to_natural(document.get("rank"))
    return FlightRecord(str(path), _rank_in(path) if rank is None else rank, tuple(groups))


def _rank_in(path: Path) -> int | None:
    """The rank in the name of a file: ``nccl_trace_rank_3``, or a number at its end."""
    named, _ = rank_in_names((path.name,))
    match = _LAST_NUMBER.search(path.name)
    return int(match[1]) if named is None and match else named


def _group_of(entry: Mapping[str, Any]) -> str:
    group = entry.get("process_group")
    if isinstance(group, (list, tuple)) and group:
        return str(group[0])
    return str(entry.get("pg_id", 0) if group is None else group)


def _members_by_name(config: Mapping[Any, Any]) -> dict[str, tuple[int, ...]]:
    members = {}
    for key, group in config.items():
        if isinstance(group, dict):
            listed = re.findall(r"\d{1,9}", str(group.get("ranks", "")))
            members[str(group.get("name", key))] = tuple(sorted({int(rank) for rank in listed}))
    return members


def _collectives(entries: list[Mapping[str, Any]]) -> tuple[Collective, ...]:
    found = {}
    for entry in entries:
        state = str(entry.get("state"))
        number = _to_count(entry.get("collective_seq_id", entry.get("seq_id")))
        found[number] = Collective(
            number=number,
            name=str(entry.get("profiling_name") or "a collective").removeprefix("nccl:"),
            sizes=str(entry.get("input_sizes", "")),
            state=state if state in _STATES else "scheduled",
            place=_find_place(entry.get("frames")),
            created_ns=_to_count(entry.get("time_created_ns")),
        )
    return tuple(found[number] for number in sorted(found))


_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_JSON = re.compile(rb'\s*\{.*"(?:pg_config|comm_lib_version|nccl_version)"', re.DOTALL)
_MOST_BYTES = 8 << 30
FAULTS: tuple[type[Exception], ...] = (*PICKLE_FAULTS, msgspec.DecodeError)


def find_state_files(paths: Sequence[Path]) -> list[Path]:
    """The files that may record a state: those directly in folders, and files if all are such."""
    files = [path for path in paths if path.is_file()]
    if not all(map(_may_be_state, files)):
        return []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.is_file())
            files += filter(_may_be_state, inside[:MOST_FILES])
    return files


def _may_be_state(path: Path) -> bool:
    try:
        head = head_of(path)
    except InputError:
        return False
    return bool(_PICKLE.match(head) or _JSON.match(head) or _is_log(head) or is_gpu_log(head))


def _is_log(head: bytes) -> bool:
    return not head.lstrip().startswith(b"{") and MARK.search(head) is not None


def read_state(path: Path) -> MemorySnapshot | FlightRecord | TransportLog | GpuLog | None:
    """Read one file; None if it is plain data of another kind.

    Raises:
        InputError: the file cannot be opened.
        BrokenTraceError: it is damaged, or no plain data.
    """
    stream = ByteStream(path)
    try:
        data = stream.read(_MOST_BYTES)
    finally:
        stream.close()
    if _is_log(data[:HEAD_BYTES]):
        return read_transports(path, data.decode(errors="replace"))
    if is_gpu_log(data[:HEAD_BYTES]):
        return read_gpu_log(path, data.decode(errors="replace"))
    document = _decode(path, data)
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("segments"), list):
        return read_snapshot(str(path), document)
    if isinstance(document.get("entries"), list):
        return read_record(path, document)
    return None


def _decode(path: Path, data: bytes) -> Any:
    try:
        if _PICKLE.match(data):
            return read_plain_pickle(data)
        return msgspec.json.decode(data)
    except FAULTS as error:
        text = str(error) or type(error).__name__
        raise BrokenTraceError(
            f"{path} cannot be read.",
            why=f"It looks like a Python pickle or a dump of a flight recorder, but: {text[:200]}.",
            hint="Pass a memory snapshot (torch.cuda.memory._dump_snapshot), a dump of NCCL's "
            "flight recorder, or a trace. Checkpoints and models are not recordings.",
        ) from error
