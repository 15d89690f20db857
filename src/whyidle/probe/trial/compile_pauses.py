"""When the job of a trial had code compiled: a pause, which belongs to no step."""

from __future__ import annotations

FEW = 2
"""pauses that may be once and for all, as when a model that was compiled is evaluated for the first
time; a job with more of them is one that compiles again and again
(``engine/trial/statistics/speedup.py``)"""


class CompilePauses:
    """``spans``: after how many steps code was compiled, and from when to when, ns."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int, int]] = []

    def note_compilation(self, steps: int, begin: int, end: int) -> None:
        """Code has been compiled. What was compiled on the way is part of that."""
        while self.spans and self.spans[-1][1] >= begin:
            self.spans.pop()
        self.spans.append((steps, begin, end))

    def once_ns(self, steps: int) -> int:
        """How long it took after so many steps, where that may be once and for all; else 0."""
        late = [(count, end - begin) for count, begin, end in self.spans if count >= steps]
        few = len({count for count, _ in late}) <= FEW
        return sum(ns for _, ns in late) if few else 0

    def pauses_by_step(self) -> list[tuple[int, int]]:
        """After how many steps, and how long, ns."""
        return [(count, end - begin) for count, begin, end in self.spans]
