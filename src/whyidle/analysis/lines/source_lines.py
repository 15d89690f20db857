"""Places of host events in the user's program: file, line, function."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

import numpy as np

from whyidle.analysis.partition.nesting import Nesting
from whyidle.model.diagnosis import Place
from whyidle.model.frames import CHECKED_OUT, FOREIGN
from whyidle.model.timeline import HostKind, Timeline

_FRAME = re.compile(
    r"^(?P<file>[^<>]+?|<i?python-input[^<>]*>)\((?P<line>\d+)\): (?P<function>.+)$"
)
_LIBRARY = re.compile(
    rf"{FOREIGN}|{CHECKED_OUT}|"
    r"^(torch|torchvision|torchaudio|numpy|transformers|lightning|pytorch_lightning|accelerate|"
    r"tqdm|threading|multiprocessing|concurrent|asyncio|contextlib|functools|importlib|runpy|typing|"
    r"logging|selectors|socket|queue|PIL|cv2|triton|deepspeed|apex|"
    r"einops|scipy|pandas|tokenizers|json|collections|abc|copy|enum|pathlib|random|re|"
    r"subprocess|tempfile|inspect|dataclasses|warnings|weakref)(/|\.py$)|"
    r"^datasets/(arrow_|dataset_dict|fingerprint|formatting|features|iterable_|table)"
)
_PACKAGE = re.compile(
    r"(?:(?:site|dist)-packages|lib/python3\.\d+t?(?!/(?:site|dist)-packages/)|/)/([^/(]+?)"
    r"(?:/|\.py\()"
)


class SourcePlaces:
    """Locates host events; nests each thread's Python frames once, on demand."""

    def __init__(self, timeline: Timeline, rank: int | None) -> None:
        self._timeline = timeline
        self._rank = rank
        self._threads: dict[int, tuple[np.ndarray, Nesting]] = {}

    def place_of(self, row: int) -> Place | None:
        """Return the innermost frame around a host event, the user's if possible."""
        host = self._timeline.host
        detail = int(host.detail[row])
        stack = self._timeline.details[detail].stack if detail >= 0 else ""
        frames = [part for part in stack.split(";") if part] if stack else []
        place = self._pick_frame(frames) or self.place_of_samples(row)
        return place or self.place_at(int(host.thread[row]), int(host.start[row]))

    def place_of_samples(self, row: int) -> Place | None:
        """Return the user's innermost common function of all samples inside a host event."""
        host = self._timeline.host
        inside = (host.start >= host.start[row]) & (host.start < host.end[row])
        inside &= (host.thread == host.thread[row]) & (host.detail >= 0)
        stacks = [
            [place for frame in stack.split(";")[::-1] if (place := self._pick_frame([frame]))]
            for sample in np.flatnonzero(inside)[:50]
            if (stack := self._timeline.details[host.detail[sample]].stack)
        ]
        stacks = [own for stack in stacks if (own := [p for p in stack if not in_library(p)])]
        if not stacks:
            return None
        common = 0
        for frames in zip(*stacks, strict=False):
            if len({(place.file, place.function) for place in frames}) > 1:
                break
            common += 1
        return stacks[0][common - 1]

    def place_at(self, thread: int, time: int) -> Place | None:
        """Return the place at a moment on a thread."""
        rows, nesting = self._nest_thread(thread)
        frames = [
            self._timeline.names[self._timeline.host.name[rows[i]]]
            for i in nesting.enclosing_rows(time)
        ]
        return self._pick_frame(frames[::-1])

    def function_at(self, thread: int, time: int) -> str | None:
        """Return the innermost recorded Python function at a moment."""
        rows, nesting = self._nest_thread(thread)
        row = nesting.innermost_at(np.array([time]))[0]
        return self._timeline.names[self._timeline.host.name[rows[row]]] if row >= 0 else None

    def _nest_thread(self, thread: int) -> tuple[np.ndarray, Nesting]:
        if thread not in self._threads:
            host = self._timeline.host
            rows = np.flatnonzero((host.thread == thread) & (host.kind == HostKind.PYTHON))
            self._threads[thread] = rows, Nesting.nest_events(host.start[rows], host.end[rows])
        return self._threads[thread]

    def _pick_frame(self, innermost_first: list[str]) -> Place | None:
        frames = [match for text in innermost_first if (match := _FRAME.match(text.strip()))]
        own = [match for match in frames if not _LIBRARY.search(match["file"])]
        best = next(iter(own or frames), None)
        return None if best is None else _frame_place(best, self._rank)


def in_library(place: Place) -> bool:
    """Return whether a place lies in Python's or a well-known package's code."""
    return place.file is not None and bool(_LIBRARY.search(place.file))


def package_of(frame: str) -> str:
    """Return the library of a frame by its import name; "" for the user's code."""
    match = _PACKAGE.search(frame)
    return match[1] if match else ""


def frame_place(text: str, rank: int | None) -> Place | None:
    """Return the place that a frame's recorded name (``file.py(12): function``) names, if any."""
    match = _FRAME.match(text.strip())
    return _frame_place(match, rank) if match else None


def _frame_place(frame: re.Match[str], rank: int | None) -> Place:
    return Place(file=frame["file"], line=int(frame["line"]), function=frame["function"], rank=rank)


def source_line(sources: Mapping[str, str], place: Place | None) -> str:
    """Return the text of a place's line; "" if its file is not among the sources."""
    lines = sources.get(place.file or "", "").splitlines() if place else []
    number = (place.line or 0) if place else 0
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def split_statements(line: str) -> list[str]:
    """The statements of a line, those behind a colon included; the line if it is a part of one."""
    try:
        body = ast.parse(line).body
    except (SyntaxError, ValueError):
        return [line]
    while len(body) == 1 and getattr(body[0], "body", None):
        body = body[0].body  # type: ignore[attr-defined]
    return [line.encode()[one.col_offset : one.end_col_offset].decode() for one in body]


def matching_lines(
    sources: Mapping[str, str], pattern: re.Pattern[str], rank: int | None
) -> tuple[Place, ...]:
    """Return the lines of the sources that match, comments aside."""
    return tuple(
        Place(file=name, line=number, function=None, rank=rank)
        for name, text in sources.items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line.partition("#")[0])
    )


def own_frames(stack: str) -> Iterator[str]:
    """Yield the user's frames of a stack, innermost first."""
    for frame in stack.split(";"):
        place = frame_place(frame, None)
        if place is not None and not in_library(place):
            yield frame


def own_frame(stack: str) -> str:
    """Return the user's innermost frame of a stack; "" if all are a library's."""
    return next(own_frames(stack), "")


def at_place(places: tuple[Place, ...], *, before: bool = False) -> str:
    """Return the first place for use in a sentence, such as " in FUNCTION" or " at FILE:LINE"."""
    first = places[0] if places else None
    if first is None or not first.function:
        return ""
    if before and first.line:
        return f" before {(first.file or '').rpartition('/')[2]}:{first.line}"
    if not first.function.startswith("<"):
        return f" in {first.function}"
    return f" at {(first.file or '').rpartition('/')[2]}:{first.line}" if first.line else ""


def called_at(places: tuple[Place, ...], library: str, *, before: bool = False) -> str:
    """Return the same for Python that runs in a library: " of LIBRARY, called in FUNCTION,"."""
    place = at_place(places, before=before)
    called = library and place and not in_library(places[0])
    return f" of {library}, called{place}," if called else place
