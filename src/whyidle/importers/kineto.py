"""PyTorch profiler traces (Kineto, Chrome JSON), of any age and vendor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whyidle.errors import BrokenTraceError, NotATraceError
from whyidle.importers._columns import Columns
from whyidle.importers._events import decode
from whyidle.importers._open import Progress, Stream
from whyidle.importers._pieces import Pieces
from whyidle.model.timeline import DeviceInfo, Source, Timeline

SUFFIXES = (".json", ".json.gz")


def sniff(head: bytes) -> bool:
    """Whether a file's first (decompressed) bytes look like a Chrome trace."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"{"):
        return b'"traceEvents"' in text or b'"schemaVersion"' in text
    return text.startswith(b"[") and (b'"ph"' in text or text[1:].strip() in (b"", b"]"))


def load(path: Path, *, member: str | None = None, progress: Progress | None = None) -> Timeline:
    """Read one process's trace.

    Args:
        path: the file, or a zip whose ``member`` is the file.
        progress: called with (bytes read, bytes in all) of the file on disk.

    Raises:
        InputError: the file cannot be opened.
        NotATraceError: it is something else; the message says what.
        BrokenTraceError: nothing in it could be read.
    """
    stream = Stream(path, member, progress)
    columns = Columns()
    pieces = Pieces(stream.read, decode)
    try:
        for piece in pieces:
            columns.add(piece)
    except LookupError:
        raise NotATraceError(
            f"{path} is not a PyTorch profiler trace.",
            why="It holds no traceEvents.",
            hint="Export one with prof.export_chrome_trace('trace.json.gz').",
        ) from None
    finally:
        stream.close()
    if not columns.events:
        raise BrokenTraceError(
            f"No event could be read from {path}.",
            why=stream.broken or pieces.lost or "Its traceEvents is empty.",
            hint="Export the trace again, and let the profiler finish before copying the file.",
        )
    return _timeline(path, member, columns, pieces, stream)


def _timeline(
    path: Path, member: str | None, columns: Columns, pieces: Pieces, stream: Stream
) -> Timeline:
    header = pieces.header
    device = columns.device()
    host = columns.host()
    distributed = header.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    notes = []
    if columns.ignored:
        notes.append(f"{columns.ignored} events with impossible times were ignored")
    return Timeline(
        names=tuple(columns.names),
        details=tuple(columns.details),
        threads=tuple(columns.threads),
        host=host,
        device=device,
        memory=columns.memory(),
        source=Source(
            path=f"{path}!{member}" if member else str(path),
            format="kineto",
            events=columns.events,
            bytes=stream.count,
            notes=tuple(notes),
            lost=stream.broken or pieces.lost,
        ),
        base_ns=int((columns.base_us or 0) * 1000) + _integer(header.get("baseTimeNanoseconds"), 0),
        info=_device(header, columns, len(device) > 0),
        rank=_rank(distributed, path),
        world_size=_integer(distributed.get("world_size"), None),
        backend=distributed.get("backend") if isinstance(distributed.get("backend"), str) else None,
        hostname=str(header["host_name"]) if "host_name" in header else None,
        framework="pytorch",
        cut=bool(stream.broken) or pieces.cut,
    )


def _rank(distributed: dict[str, Any], path: Path) -> int | None:
    return _integer(distributed.get("rank"), None)


def _integer(value: Any, default: Any) -> Any:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return default


def _device(header: dict[str, Any], columns: Columns, any_device: bool) -> DeviceInfo:
    listed = header.get("deviceProperties") or header.get("computeProperties") or []
    devices = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    first = devices[0] if devices else {}
    name = first.get("name") if isinstance(first.get("name"), str) else None
    rocm = any(n.startswith("hip") for n in columns.names) or "hip_runtime_version" in header
    cuda = any(n.startswith(("cuda", "cuLaunch")) for n in columns.names)
    kind = "rocm" if rocm else "cuda" if cuda or any_device or devices else "cpu"
    major = _integer(first.get("computeMajor", first.get("major")), None)
    minor = _integer(first.get("computeMinor", first.get("minor")), 0)
    return DeviceInfo(
        kind=kind,
        name=name,
        count=len(devices),
        memory_bytes=_integer(first.get("totalGlobalMem"), None),
        sm_count=_integer(first.get("numSms"), None),
        capability=None if major is None else (major, minor),
    )
