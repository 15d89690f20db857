"""How many samples the steps of a trial have used: what loaders handed to the training loop.

A batch is as large as the list of indices that it was asked for with. Of all that is drawn between
two steps only what comes from loaders that were drawn from last before a backward pass counts: what
an evaluation draws in between does not. Where batches come from elsewhere nothing is counted.
"""

from __future__ import annotations

import functools
from collections import Counter, deque
from typing import Any

from ..core import containment


class Drawn:
    """The samples of one process."""

    def __init__(self) -> None:
        self.pending: Counter[int] = Counter()
        """by iterator, since the last step"""
        self.last: int | None = None
        self.trained: set[int] = set()
        self.total = 0

    def drew(self, iterator: int, samples: int) -> None:
        """A batch was handed to the script."""
        self.pending[iterator] += samples
        self.last = iterator

    def backward(self) -> None:
        """A backward pass begins: it learns from what was drawn last."""
        if self.last is not None:
            self.trained.add(self.last)

    def step(self) -> int:
        """A step has ended; all samples that steps have used by now."""
        self.total += sum(self.pending[one] for one in self.trained)
        self.pending.clear()
        self.trained.clear()
        return self.total


def install(folder: str, drawn: Drawn) -> None:
    """Have every iterator of a DataLoader tell what it hands out."""
    from torch.utils.data import dataloader

    Kind: Any = dataloader._BaseDataLoaderIter  # noqa: N806
    ask, hand_out, reset = Kind._next_index, Kind.__next__, Kind._reset

    def note(work: Any) -> None:
        containment.contained(folder, "samples", work)

    @functools.wraps(ask)
    def _next_index(self: Any) -> Any:
        index = ask(self)
        note(lambda: _sizes(self).append(len(index) if isinstance(index, list | tuple) else 1))
        return index

    @functools.wraps(hand_out)
    def __next__(self: Any) -> Any:  # noqa: N807
        data = hand_out(self)
        note(lambda: drawn.drew(id(self), _sizes(self).popleft()))
        return data

    @functools.wraps(reset)
    def _reset(self: Any, *args: Any, **kwargs: Any) -> Any:
        note(lambda: _sizes(self).clear())
        return reset(self, *args, **kwargs)

    Kind._next_index, Kind.__next__, Kind._reset = _next_index, __next__, _reset


def _sizes(iterator: Any) -> deque[int]:
    """Of the batches that it was asked for and has not handed out yet."""
    found: deque[int] | None = vars(iterator).get("_whyidle_sizes")
    if found is None:
        found = iterator._whyidle_sizes = deque()
    return found
