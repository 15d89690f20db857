"""Counts the samples that the steps of a trial have used: those that loaders returned.

The size of a batch is the length of its list of indices. Of all batches between two steps, only
those of loaders that were read last before a backward pass count; batches of an evaluation in
between do not. Batches from elsewhere are not counted.
"""

from __future__ import annotations

from collections import Counter


class SampleCounter:
    """The samples of one process."""

    def __init__(self) -> None:
        self.pending: Counter[int] = Counter()
        """iterator -> samples since the last step"""
        self.last: int | None = None
        self.trained: set[int] = set()
        self.total = 0

    def note_batch(self, iterator: int, samples: int) -> None:
        """Note a batch that the script received."""
        self.pending[iterator] += samples
        self.last = iterator

    def note_backward(self) -> None:
        """Note a backward pass, which learns from the last batch."""
        if self.last is not None:
            self.trained.add(self.last)

    def note_step(self) -> int:
        """Note the end of a step; return all samples that steps have used so far."""
        self.total += sum(self.pending[item] for item in self.trained)
        self.pending.clear()
        self.trained.clear()
        return self.total
