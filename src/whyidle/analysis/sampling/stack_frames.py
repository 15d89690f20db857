"""Outer functions of stack samples as host events."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import I64

_LINE = re.compile(r"\(\d+\)")


class StackFrames:
    """Converts samples to events of the functions around them, each lasting while it is on the
    stack of successive samples."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.events: list[tuple[int, int, int, int]] = []
        """begin, end, name, thread"""
        self._numbers: dict[str, int] = {}

    def number_of(self, text: str) -> int:
        """Return the number of a name, which is added if new."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.names)
            self.names.append(text)
        return number

    def add_samples(self, samples: NDArray[Any], start: I64, end: I64, stacks: list[str]) -> None:
        """Add samples, with begin and end (ns) of the time that each represents."""
        for thread in np.unique(samples["thread"]):
            rows = np.flatnonzero(samples["thread"] == thread)
            columns = samples["stack"][rows], start[rows], end[rows]
            self._add_thread(int(thread), columns, stacks)

    def _add_thread(
        self, thread: int, columns: tuple[NDArray[Any], I64, I64], stacks: list[str]
    ) -> None:
        calls: dict[int, list[tuple[str, str]]] = {}
        open_: list[tuple[str, int, int]] = []  # function, begin, name
        before, last = -1, 0
        for number, begin, until in zip(*(column.tolist() for column in columns), strict=True):
            if number != before or begin != last:
                if number not in calls:
                    texts = stacks[number].split(";")[:0:-1]  # outermost first, no innermost one
                    calls[number] = [(_LINE.sub("", text, count=1), text) for text in texts]
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


def _common_depth(open_: list[tuple[str, int, int]], frames: list[tuple[str, str]]) -> int:
    pairs = zip(open_, frames, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0][0] == pair[1][0], pairs))
