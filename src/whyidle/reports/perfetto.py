"""The recording with gaps, steps and findings as extra tracks, for Perfetto."""

from __future__ import annotations

import gzip
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path
from typing import IO, cast

import msgspec
from isal import igzip

from whyidle.errors import InputError
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.overlay import Mark, Overlay, Track
from whyidle.reports._event_list import valid_event_list, valid_head

PIECE_BYTES = 1 << 16
"""the most text that is lost where a compressed file is cut short"""


def read_pieces(source: str) -> Iterator[bytes]:
    """Read the text of a source (a path or ``archive.zip!member``) in pieces, as far as a damaged
    file can be decompressed.

    Raises:
        InputError: the file can no longer be opened.
    """
    with ExitStack() as stack:
        try:
            text = _open_source(source, stack)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            raise InputError(
                f"Cannot read {source} a second time.",
                why=f"{getattr(error, 'strerror', None) or error}.",
                hint="Keep the recording until its annotated copy is written.",
            ) from error
        while piece := _decode_text(text):
            yield piece


def _open_source(source: str, stack: ExitStack) -> IO[bytes]:
    path, _, member = source.partition("!") if not Path(source).exists() else (source, "", "")
    raw: IO[bytes]
    if member:
        archive = stack.enter_context(zipfile.ZipFile(path))
        raw = stack.enter_context(archive.open(member))
    else:
        raw = Path(path).open("rb")  # noqa: SIM115  # the stack closes it
        stack.callback(raw.close)
    magic = raw.read(2)
    raw.seek(0)
    if magic != b"\x1f\x8b":
        return raw
    return stack.enter_context(closing(igzip.open(raw, "rb")))  # type: ignore[no-untyped-call]


def _decode_text(text: IO[bytes]) -> bytes:
    try:
        return text.read1(PIECE_BYTES)  # type: ignore[attr-defined]  # all have it
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile):
        return b""


PROCESS = 990_000_000
"""process id of our tracks: above those of Linux, below the limit of viewers"""
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[|^[\xef\xbb\xbf\s]*\[')
_LONGEST_HEAD = 64 << 20
_BATCH = 4096


def write(diagnosis: Diagnosis, overlays: Sequence[Overlay], target: Path) -> list[Path]:
    """Copy each recording with its overlay; compress if ``target`` ends in ``.gz``.

    The text of a Chrome trace is copied in pieces, unchanged where it is valid JSON; our events
    come first in its event list. Recordings of other forms are written as such a trace.

    Args:
        diagnosis: its verdict names our process in the viewer.
        overlays: one per recording.
        target: the file to write; several recordings go to one file each, named by rank.

    Raises:
        InputError: a recording cannot be read a second time, or is ``target`` itself.
    """
    written = []
    for number, overlay in enumerate(overlays):
        path = target if len(overlays) == 1 else _rank_path(target, overlay, number)
        _refuse_to_overwrite(path, overlay.source)
        with ExitStack() as stack:
            out: IO[bytes] = stack.enter_context(path.open("wb"))
            if path.suffix == ".gz":
                packed = igzip.IGzipFile("", "wb", 2, out, mtime=0)  # type: ignore[no-untyped-call]
                stack.callback(packed.close)
                out = cast("IO[bytes]", packed)
            for piece in _annotate_text(diagnosis, overlay, number):
                out.write(piece)
        written.append(path)
    return written


def _refuse_to_overwrite(path: Path, source: str) -> None:
    recording = Path(source if Path(source).exists() else source.partition("!")[0])
    if path.exists() and recording.exists() and path.samefile(recording):
        raise InputError(
            f"{path} is the recording itself.",
            why="whyidle reads it while it writes the copy.",
            hint="Name another file.",
        )


def _rank_path(target: Path, overlay: Overlay, number: int) -> Path:
    ending = "".join(target.suffixes[-2:] if target.suffix == ".gz" else target.suffixes[-1:])
    stem = target.name.removesuffix(ending)
    rank = f"rank{overlay.rank}" if overlay.rank is not None else f"recording{number}"
    return target.with_name(f"{stem}.{rank}{ending}")


def _annotate_text(diagnosis: Diagnosis, overlay: Overlay, number: int) -> Iterator[bytes]:
    text, head = read_pieces(overlay.source), b""
    match = None
    for piece in text:
        head += piece
        match = _EVENTS.search(head)
        if match or len(head) > _LONGEST_HEAD:
            break
    if match is None:  # a recording of another form, so its events are written anew
        yield b'{"traceEvents": ['
        for i, batch in enumerate(_events(diagnosis, overlay, PROCESS + number, overlay.recording)):
            yield b",\n" * bool(i) + b",\n".join(batch)
        yield b"]}"
        return
    yield valid_head(head[: match.end()])
    ours = _events(diagnosis, overlay, PROCESS + number, ())
    yield b",\n".join(next(ours))
    for batch in ours:
        yield b",\n" + b",\n".join(batch)
    bare = match[0].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    theirs = valid_event_list(chain([head[match.end() :].lstrip()], text), bare=bare)
    first = next(theirs).lstrip()
    yield first if first.startswith(b"]") else b",\n" + first
    yield from theirs


def _events(
    diagnosis: Diagnosis, overlay: Overlay, pid: int, recording: Sequence[Track]
) -> Iterator[list[bytes]]:
    verdict = diagnosis.verdict
    process = {"ph": "M", "ts": 0, "pid": pid, "tid": 0}
    yield [
        _line({**process, "name": "process_name", "args": {"name": "whyidle"}}),
        _line({**process, "name": "process_labels", "args": {"labels": verdict.headline}}),
        _line({**process, "name": "process_sort_index", "args": {"sort_index": -1}}),
        *(
            _line({**process, "tid": tid, "name": key, "args": value})
            for tid, track in enumerate((*overlay.tracks, *recording), 1)
            for key, value in (
                ("thread_name", {"name": track.name}),
                ("thread_sort_index", {"sort_index": tid}),
            )
        ),
    ]
    for tid, track in enumerate((*overlay.tracks, *recording), 1):
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
    """One event. Times are exact decimals of microseconds; a float would round them."""
    kind = "X" if mark.length_ns else "i"
    rest = msgspec.json.encode({"name": mark.name, "args": mark.args})[1:]
    start, length = _microseconds(mark.start_ns), _microseconds(mark.length_ns)
    head = f'{{"ph":"{kind}","cat":"whyidle","pid":{pid},"tid":{tid},"ts":{start},"dur":{length},'
    return head.encode() + rest


def _microseconds(ns: int) -> str:
    sign, size = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{size // 1000}.{size % 1000:03d}"
