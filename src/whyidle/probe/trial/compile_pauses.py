"""Pauses of a trial's job for compiling code, which belong to no step."""

from __future__ import annotations

FEW = 2
"""most pauses that count as one-off, as when a compiled model is evaluated for the first time; a
job with more of them recompiles again and again (``fix/statistics/speedup.py``)"""


class CompilePauses:
    """Compilations as ``spans``: number of steps before, begin and end, ns."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int, int]] = []

    def note_compilation(self, steps: int, begin: int, end: int) -> None:
        """Note a compilation; nested ones are part of it."""
        while self.spans and self.spans[-1][1] >= begin:
            self.spans.pop()
        self.spans.append((steps, begin, end))

    def once_ns(self, steps: int) -> int:
        """Return the time of compilations after this many steps, if they are one-off; else 0."""
        late = [(count, end - begin) for count, begin, end in self.spans if count >= steps]
        few = len({count for count, _ in late}) <= FEW
        return sum(ns for _, ns in late) if few else 0

    def pauses_by_step(self) -> list[tuple[int, int]]:
        """Return (number of steps before, length in ns) of each pause."""
        return [(count, end - begin) for count, begin, end in self.spans]
