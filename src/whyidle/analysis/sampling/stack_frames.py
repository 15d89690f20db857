"""The functions around what stack samples show, as events."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LINE = re.compile(r"\(\d+\)")


class StackFrames:
    """Turns samples into events of the functions around them, as a recording of calls has them:
    a function lasts as long as it is on the stack of one sample after the other."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.events: list[tuple[int, int, int, int]] = []
        """begin, end, name, thread"""
        self._numbers: dict[str, int] = {}

    def number_of(self, text: str) -> int:
        """Of a name, which is added where it is new."""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.names)
            self.names.append(text)
        return found

    def add_samples(
        self,
        samples: NDArray[Any],
        start: NDArray[np.int64],
        end: NDArray[np.int64],
        stacks: list[str],
    ) -> None:
        """Take samples in, with begin and end (ns) of what each speaks for."""
        for thread in np.unique(samples["thread"]):
            rows = np.flatnonzero(samples["thread"] == thread)
            self._add_thread(int(thread), samples["stack"][rows], start[rows], end[rows], stacks)

    def _add_thread(
        self,
        thread: int,
        numbers: NDArray[Any],
        start: NDArray[np.int64],
        end: NDArray[np.int64],
        stacks: list[str],
    ) -> None:
        calls: dict[int, list[tuple[str, str]]] = {}
        open_: list[tuple[str, int, int]] = []  # function, begin, name
        before, last = -1, 0
        for number, begin, until in zip(
            numbers.tolist(), start.tolist(), end.tolist(), strict=True
        ):
            if number != before or begin != last:
                if number not in calls:
                    calls[number] = _split_calls(stacks[number])
                frames = calls[number]
                depth = _common_depth(open_, frames) if begin == last else 0
                self._close_frames(open_, depth, last, thread)
                open_ += [(name, begin, self.number_of(text)) for name, text in frames[depth:]]
            before, last = number, until
        self._close_frames(open_, 0, last, thread)

    def _close_frames(
        self, open_: list[tuple[str, int, int]], depth: int, end: int, thread: int
    ) -> None:
        for _, begin, name in open_[depth:]:
            self.events.append((begin, end, name, thread))
        del open_[depth:]


def _split_calls(stack: str) -> list[tuple[str, str]]:
    """The functions around the innermost one, outermost first: (what it is, text)."""
    return [(_LINE.sub("", text, count=1), text) for text in stack.split(";")[:0:-1]]


def _common_depth(open_: list[tuple[str, int, int]], frames: list[tuple[str, str]]) -> int:
    depth = 0
    for (name, _, _), (other, _) in zip(open_, frames, strict=False):
        if name != other:
            break
        depth += 1
    return depth
