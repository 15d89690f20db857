"""Where in the user's program a host event came from: file, line, function."""

from __future__ import annotations

import re

import numpy as np

from whyidle.analysis.nesting import Nesting
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
    r"subprocess|tempfile|warnings|weakref)(/|\.py$)|"
    r"^datasets/(arrow_|dataset_dict|fingerprint|formatting|features|iterable_|table)"
)
_PACKAGE = re.compile(r"(?:(?:site|dist)-packages|lib/python3\.\d+t?)/([^/(]+?)(?:/|\.py\()")

MOST_SAMPLES = 50


class SourcePlaces:
    """Locates host events; nests each thread's Python frames once, on demand."""

    def __init__(self, timeline: Timeline, rank: int | None) -> None:
        self._timeline = timeline
        self._rank = rank
        self._threads: dict[int, tuple[np.ndarray, Nesting]] = {}

    def place_of(self, row: int) -> Place | None:
        """The innermost frame of the user's own code around a host event, else the innermost
        frame at all; None where the recording holds no stack."""
        host = self._timeline.host
        detail = int(host.detail[row])
        stack = self._timeline.details[detail].stack if detail >= 0 else ""
        frames = [part for part in stack.split(";") if part] if stack else []
        return self._pick_frame(frames) or self.place_of_samples(row) or self._place_at_row(row)

    def place_of_samples(self, row: int) -> Place | None:
        """The user's function in which all stack samples inside a host event lie, at the line that
        the first shows; its innermost one where they share none. None where the recording has no
        samples (those are Python events that carry a whole stack)."""
        host = self._timeline.host
        inside = (host.start >= host.start[row]) & (host.start < host.end[row])
        inside &= (host.thread == host.thread[row]) & (host.detail >= 0)
        stacks = [
            [place for frame in stack.split(";")[::-1] if (place := self._pick_frame([frame]))]
            for sample in np.flatnonzero(inside)[:MOST_SAMPLES]
            if (stack := self._timeline.details[host.detail[sample]].stack)
        ]
        stacks = [own for stack in stacks if (own := [p for p in stack if not in_library(p)])]
        if not stacks:
            return None
        together = 0
        for frames in zip(*stacks, strict=False):
            if len({(place.file, place.function) for place in frames}) > 1:
                break
            together += 1
        return stacks[0][together - 1]

    def _place_at_row(self, row: int) -> Place | None:
        host = self._timeline.host
        return self.place_at(int(host.thread[row]), int(host.start[row]))

    def place_at(self, thread: int, time: int) -> Place | None:
        """The same for a moment on a thread."""
        rows, nesting = self._nest_thread(thread)
        inside = [
            self._timeline.names[self._timeline.host.name[rows[i]]]
            for i in nesting.enclosing_rows(time)
        ]
        return self._pick_frame(inside[::-1])

    def function_at(self, thread: int, time: int) -> str | None:
        """The innermost Python function at a moment, as recorded."""
        rows, nesting = self._nest_thread(thread)
        found = nesting.innermost_at(np.array([time]))[0]
        return self._timeline.names[self._timeline.host.name[rows[found]]] if found >= 0 else None

    def _nest_thread(self, thread: int) -> tuple[np.ndarray, Nesting]:
        if thread not in self._threads:
            host = self._timeline.host
            rows = np.flatnonzero((host.thread == thread) & (host.kind == HostKind.PYTHON))
            self._threads[thread] = rows, Nesting.nest_events(host.start[rows], host.end[rows])
        return self._threads[thread]

    def _pick_frame(self, innermost_first: list[str]) -> Place | None:
        frames = [found for text in innermost_first if (found := _FRAME.match(text.strip()))]
        own = [found for found in frames if not _LIBRARY.search(found["file"])]
        best = own or frames
        if not best:
            return None
        return _frame_place(best[0], self._rank)


def in_library(place: Place) -> bool:
    """Whether a place lies in Python's or a well-known package's code, not in the user's."""
    return place.file is not None and bool(_LIBRARY.search(place.file))


def package_of(frame: str) -> str:
    """The library whose code a frame is, by its name in an import; empty of the user's own."""
    found = _PACKAGE.search(frame)
    return found[1] if found else ""


def frame_place(text: str, rank: int | None) -> Place | None:
    """The place that a frame's recorded name tells (``file.py(12): function``), if it does."""
    found = _FRAME.match(text.strip())
    return _frame_place(found, rank) if found else None


def _frame_place(frame: re.Match[str], rank: int | None) -> Place:
    return Place(file=frame["file"], line=int(frame["line"]), function=frame["function"], rank=rank)


def own_frame(stack: str) -> str:
    """The innermost frame of a stack that is the user's own; empty where all are a library's."""
    for frame in stack.split(";"):
        place = frame_place(frame, None)
        if place is not None and not in_library(place):
            return frame
    return ""


def at_place(where: tuple[Place, ...], *, before: bool = False) -> str:
    """The first place for the middle of a sentence: " in FUNCTION", " at FILE:LINE" where the code
    stands outside functions, nothing where neither is known; " before FILE:LINE" of what ran until
    that line, in whatever function."""
    first = where[0] if where else None
    if first is None or not first.function:
        return ""
    if before and first.line:
        return f" before {(first.file or '').rpartition('/')[2]}:{first.line}"
    if not first.function.startswith("<"):
        return f" in {first.function}"
    return f" at {(first.file or '').rpartition('/')[2]}:{first.line}" if first.line else ""


def called_at(where: tuple[Place, ...], library: str, *, before: bool = False) -> str:
    """The same of Python that runs in a library: " of LIBRARY, called in FUNCTION,"."""
    at = at_place(where, before=before)
    called = library and at and not in_library(where[0])
    return f" of {library}, called{at}," if called else at
