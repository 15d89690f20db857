"""Padding of sequences that no DataLoader hands over, from the ids that the loss still remembers.

Until a backward pass has run, the graph of the loss holds what each embedding looked up, and which
id its author called padding. The hook of the backward pass hands over a few losses, at most once a
second. Only ids on the CPU are read, as arrays, and none whose saving the job has changed
(checkpointing, offloading), as reading those would run the job's code.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from ...core.events import Events
from ...core.listener import Listener
from ...core.recorder import clock_ns
from ...wire import PAD
from . import padding

IDS = 5
"""how it was told, beside those of ``padding``"""
MOST_NODES = 2_000
"""of a graph, at most, are visited"""
MOST_FOUND = 4
MOST_IDS = 1 << 62
LOOKS = 4
"""backward passes in a row"""


class EmbeddingIds(Listener):
    """Looks at the ids of the embeddings that one process trains."""

    listener = "ids"

    def __init__(self, events: Events, told: padding.PaddingCounter) -> None:
        self.events, self.told = events, told
        self.tries = padding.TRIES
        self.credit = padding.CREDIT_NS
        self.next = self.left = 0

    def stop_listening(self) -> None:
        """Never look again."""
        self.tries = self.left = 0
        self.wants_detail = False

    def on_chore(self) -> None:
        """Now and then, on another thread: shall the next backward passes be looked at?"""
        wanted = self.tries and self.events.steps and not self.told.found
        if wanted and not self.left and clock_ns() >= self.next:
            self.left, self.wants_detail = LOOKS, True
            self.events.be_careful()

    def on_backward_begin(self, args: tuple[Any, ...]) -> None:
        """Look at its loss, where it is wanted."""
        if self.left:
            self.left -= 1
            self.wants_detail = self.left > 0
            self._look_at_ids(args)

    def _look_at_ids(self, args: tuple[Any, ...]) -> None:
        begin, cost = clock_ns(), time.thread_time_ns()
        found = of_loss(args[0]) if args else None
        if found is not None:
            self.tries = padding.TRIES
            self.events.recorder.add_row("padding", PAD, (begin, *found))
        else:
            self.tries -= 1
        spent = time.thread_time_ns() - cost
        share = padding.EARLY_BUDGET if self.credit > 0 else padding.BUDGET
        self.credit -= spent
        self.next = max(self.next, begin) + int(spent / share)


def of_loss(loss: Any) -> padding.Found | None:
    """The padding of what the largest embedding behind a loss looked up; None where nothing tells
    it."""
    if "numpy" not in sys.modules:
        return None  # importing it would be felt
    found = [one for node in _find_embeddings(loss) if (one := _looked_up(node)) is not None]
    for array, pad, _ in sorted(found, key=lambda one: (one[1] < 0, -one[2])):
        counted = of_ids(array, pad)
        if counted is not None:
            return counted
    return None


def _find_embeddings(loss: Any) -> list[Any]:
    roots = loss if isinstance(loss, (list, tuple)) else [loss]
    left = [getattr(one, "grad_fn", None) for one in roots]
    seen: set[Any] = set()
    found: list[Any] = []
    while left and len(seen) < MOST_NODES and len(found) < MOST_FOUND:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name() == "EmbeddingBackward0":
            found.append(node)
        else:  # the first input first: that is how residual networks lead to their embedding
            left.extend(each for each, _ in reversed(node.next_functions))
    return found


def _looked_up(node: Any) -> tuple[Any, int, int] | None:
    """Ids as an array, the one that is padding (-1: not told), and how many there may be."""
    saved = node._raw_saved_indices
    if getattr(saved, "unpack_hook", saved) is not None:
        return None  # reading it would run somebody's code, or this PyTorch does not tell
    array, pad = padding.as_array(node._saved_indices), int(node._saved_padding_idx)
    size = int(getattr(node, "_saved_weight_sym_argsize_0", 0))
    pad = pad if pad < MOST_IDS else -1  # no padding is the largest number there is
    return None if array is None else (array, pad, size)


def of_ids(array: Any, pad: int) -> padding.Found | None:
    """Padding among ids: those that the embedding calls so, or what many rows end in."""
    if len(array.shape) != 2:
        return None
    if pad < 0:
        return padding.by_tokens([("", array)])
    some = padding.thin_rows(array)
    for rows in (some, some.T):
        real = rows != pad
        one_run = (real[:, 1:] != real[:, :-1]).sum(axis=1).max(initial=0) <= 1
        if rows.shape[0] > 1 and rows.shape[1] >= padding.SHORTEST and one_run and real.any():
            return padding.count_positions(real.sum(axis=1), real.shape, pad, IDS)
    return None
