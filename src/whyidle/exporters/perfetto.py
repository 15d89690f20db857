"""The recording itself with our gaps, steps and findings as extra tracks; opens in Perfetto."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, cast

import msgspec
from isal import igzip

from whyidle.errors import InputError
from whyidle.exporters._source import pieces
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.overlay import Mark, Overlay

SUFFIXES = (".perfetto.json", ".perfetto.json.gz")
WANTS = "file"

PROCESS = 990_000_000
"""our process id: larger than any that Linux gives, smaller than what a viewer cuts off"""
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[|^[\xef\xbb\xbf\s]*\[')
_BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
_BATCH = 4096
_TAIL_BYTES = 1 << 20


def write(diagnosis: Diagnosis, overlays: Sequence[Overlay], target: Path) -> list[Path]:
    """Copy each recording with its overlay added; gzip where ``target`` ends in ``.gz``.

    The original text passes through unchanged, in pieces, whatever its size; our events stand at
    the head of its event list. A file that was cut short is closed after its last whole event.

    Args:
        diagnosis: what the overlays say; its verdict names our process in the viewer.
        overlays: one per recording.
        target: the file to write. Several recordings go to one file each, named by rank.

    Raises:
        InputError: a recording cannot be read a second time, or is ``target`` itself.
    """
    written = []
    for number, overlay in enumerate(overlays):
        path = target if len(overlays) == 1 else _beside(target, overlay, number)
        _refuse_to_overwrite(path, overlay.source)
        with ExitStack() as stack:
            out: IO[bytes] = stack.enter_context(path.open("wb"))
            if path.suffix == ".gz":
                packed = igzip.IGzipFile("", "wb", 2, out, mtime=0)  # type: ignore[no-untyped-call]
                stack.callback(packed.close)
                out = cast("IO[bytes]", packed)
            for piece in _annotated(diagnosis, overlay, number):
                out.write(piece)
        written.append(path)
    return written


def _refuse_to_overwrite(path: Path, source: str) -> None:
    recording = Path(source if Path(source).exists() else source.partition("!")[0])
    if path.exists() and recording.exists() and path.samefile(recording):
        raise InputError(
            f"{path} is the recording itself.",
            why="It would be overwritten while it is read.",
            hint="Name another file.",
        )


def _beside(target: Path, overlay: Overlay, number: int) -> Path:
    """``out.json.gz`` becomes ``out.rank3.json.gz``."""
    ending = "".join(target.suffixes[-2:] if target.suffix == ".gz" else target.suffixes[-1:])
    stem = target.name.removesuffix(ending)
    rank = f"rank{overlay.rank}" if overlay.rank is not None else f"recording{number}"
    return target.with_name(f"{stem}.{rank}{ending}")


def _annotated(diagnosis: Diagnosis, overlay: Overlay, number: int) -> Iterator[bytes]:
    text = pieces(overlay.source)
    head = b""
    for piece in text:
        head += piece
        if found := _EVENTS.search(head):
            break
    else:
        yield head
        return
    yield head[: found.end()]
    rest = head[found.end() :].lstrip()
    while not rest and (piece := next(text, b"")):
        rest = piece.lstrip()
    ours = _events(diagnosis, overlay, PROCESS + number)
    yield b",\n".join(next(ours))
    for batch in ours:
        yield b",\n" + b",\n".join(batch)
    yield b"" if rest.startswith(b"]") or not rest else b",\n"
    listed = found[0].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    yield from _closed(rest, text, b"]" if listed else b"]}") if overlay.cut else _whole(rest, text)


def _whole(rest: bytes, text: Iterator[bytes]) -> Iterator[bytes]:
    yield rest
    yield from text


def _closed(rest: bytes, text: Iterator[bytes], ending: bytes) -> Iterator[bytes]:
    """Text that stops in the middle, up to its last whole event, and closed."""
    tail = rest
    for piece in text:
        tail += piece
        if len(tail) > 2 * _TAIL_BYTES:
            yield tail[:-_TAIL_BYTES]
            tail = tail[-_TAIL_BYTES:]
    yield tail[: _last_whole(tail)] + ending


def _last_whole(tail: bytes) -> int:
    """Where the last event that decodes ends."""
    bounds = [0, *(found.end() for found in _BETWEEN.finditer(tail))]
    for begin, end in zip(reversed(bounds), [len(tail), *reversed(bounds[1:])], strict=True):
        candidate = tail[begin:end].rstrip().rstrip(b",").rstrip()
        try:
            whole = isinstance(json.loads(candidate), dict)
        except ValueError:
            continue
        if whole:
            return begin + len(candidate)
    return bounds[-1]


def _events(diagnosis: Diagnosis, overlay: Overlay, pid: int) -> Iterator[list[bytes]]:
    """Our events in batches; the first names the process and its threads."""
    verdict = diagnosis.verdict
    process = {"ph": "M", "ts": 0, "pid": pid, "tid": 0}
    yield [
        _line({**process, "name": "process_name", "args": {"name": "whyidle"}}),
        _line({**process, "name": "process_labels", "args": {"labels": verdict.headline}}),
        _line({**process, "name": "process_sort_index", "args": {"sort_index": -1}}),
        *(
            _line({**process, "tid": tid, "name": key, "args": value})
            for tid, track in enumerate(overlay.tracks, 1)
            for key, value in (
                ("thread_name", {"name": track.name}),
                ("thread_sort_index", {"sort_index": tid}),
            )
        ),
    ]
    for tid, track in enumerate(overlay.tracks, 1):
        yield from _batches(_slice(mark, pid, tid) for mark in track.marks)


def _batches(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch = []
    for line in lines:
        batch.append(line)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _line(event: dict[str, object]) -> bytes:
    return msgspec.json.encode(event)


def _slice(mark: Mark, pid: int, tid: int) -> bytes:
    """One event. Times are exact decimals of microseconds: a float could not hold them."""
    kind = "X" if mark.length_ns else "i"
    rest = msgspec.json.encode({"name": mark.name, "args": mark.args})[1:]
    start, length = _microseconds(mark.start_ns), _microseconds(mark.length_ns)
    head = f'{{"ph":"{kind}","cat":"whyidle","pid":{pid},"tid":{tid},"ts":{start},"dur":{length},'
    return head.encode() + rest


def _microseconds(ns: int) -> str:
    sign, size = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{size // 1000}.{size % 1000:03d}"
