"""How many samples the steps of a trial have used: what loaders handed to the training loop.

A batch is as large as the list of indices that it was asked for with. Of all that is drawn between
two steps only what comes from loaders that were drawn from last before a backward pass counts: what
an evaluation draws in between does not. Where batches come from elsewhere nothing is counted.
"""

from __future__ import annotations

from collections import Counter


class SampleCounter:
    """The samples of one process."""

    def __init__(self) -> None:
        self.pending: Counter[int] = Counter()
        """by iterator, since the last step"""
        self.last: int | None = None
        self.trained: set[int] = set()
        self.total = 0

    def note_batch(self, iterator: int, samples: int) -> None:
        """A batch was handed to the script."""
        self.pending[iterator] += samples
        self.last = iterator

    def note_backward(self) -> None:
        """A backward pass begins: it learns from what was drawn last."""
        if self.last is not None:
            self.trained.add(self.last)

    def note_step(self) -> int:
        """A step has ended; all samples that steps have used by now."""
        self.total += sum(self.pending[one] for one in self.trained)
        self.pending.clear()
        self.trained.clear()
        return self.total
