"""Measures padding of sequences that come from no DataLoader, from the ids in the loss's graph.

Until a backward pass has run, the graph of the loss holds the ids that each embedding looked up,
and its padding id. The hook of the backward pass inspects a few losses, at most once a second. Only
ids on the CPU are read, as arrays, and none whose saving the job has changed (checkpointing,
offloading), as reading those would run the job's code.
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
"""method of the measurement, in addition to those of ``padding``"""
MOST_NODES = 2_000
"""most nodes of a graph that are visited"""
MOST_FOUND = 4
MOST_IDS = 1 << 62
LOOKS = 4
"""consecutive backward passes that are inspected"""


class EmbeddingIds(Listener):
    """Inspects the ids of the embeddings that one process trains."""

    listener = "ids"

    def __init__(self, events: Events, counter: padding.PaddingCounter) -> None:
        self.events, self.counter = events, counter
        self.tries = padding.TRIES
        self.credit = padding.CREDIT_NS
        self.next = self.left = 0

    def stop_listening(self) -> None:
        """Stop inspecting."""
        self.tries = self.left = 0
        self.wants_detail = False

    def on_chore(self) -> None:
        """Decide on the sampler's thread whether to inspect the next backward passes."""
        wanted = self.tries and self.events.steps and not self.counter.found
        if wanted and not self.left and clock_ns() >= self.next:
            self.left, self.wants_detail = LOOKS, True
            self.events.be_careful()

    def on_backward_begin(self, args: tuple[Any, ...]) -> None:
        """Inspect the loss if wanted."""
        if self.left:
            self.left -= 1
            self.wants_detail = self.left > 0
            self._look_at_ids(args)

    def _look_at_ids(self, args: tuple[Any, ...]) -> None:
        begin, cost = clock_ns(), time.thread_time_ns()
        row = padding_of_loss(args[0]) if args else None
        if row is not None:
            self.tries = padding.TRIES
            self.events.recorder.add_row("padding", PAD, (begin, *row))
        else:
            self.tries -= 1
        spent = time.thread_time_ns() - cost
        share = padding.EARLY_BUDGET if self.credit > 0 else padding.BUDGET
        self.credit -= spent
        self.next = max(self.next, begin) + int(spent / share)


def padding_of_loss(loss: Any) -> padding.Found | None:
    """Return the padding of the ids of the largest embedding in a loss's graph; None if unknown."""
    if "numpy" not in sys.modules:
        return None  # importing it would take too long
    lookups = [
        lookup for node in _find_embeddings(loss) if (lookup := _looked_up(node)) is not None
    ]
    for array, pad, _ in sorted(lookups, key=lambda lookup: (lookup[1] < 0, -lookup[2])):
        counted = padding_of_ids(array, pad)
        if counted is not None:
            return counted
    return None


def _find_embeddings(loss: Any) -> list[Any]:
    roots = loss if isinstance(loss, (list, tuple)) else [loss]
    left = [getattr(root, "grad_fn", None) for root in roots]
    seen: set[Any] = set()
    nodes: list[Any] = []
    while left and len(seen) < MOST_NODES and len(nodes) < MOST_FOUND:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name() == "EmbeddingBackward0":
            nodes.append(node)
        else:  # first inputs first: in residual networks they lead to the embedding
            left.extend(inner for inner, _ in reversed(node.next_functions))
    return nodes


def _looked_up(node: Any) -> tuple[Any, int, int] | None:
    """Ids as an array, the padding id (-1: unknown), and the size of the vocabulary."""
    saved = node._raw_saved_indices
    if getattr(saved, "unpack_hook", saved) is not None:
        return None  # reading it would run the job's code, or is unsupported by this PyTorch
    array, pad = padding.as_array(node._saved_indices), int(node._saved_padding_idx)
    size = int(getattr(node, "_saved_weight_sym_argsize_0", 0))
    pad = pad if pad < MOST_IDS else -1  # the largest integer stands for no padding
    return None if array is None else (array, pad, size)


def padding_of_ids(array: Any, pad: int) -> padding.Found | None:
    """Return the padding among ids: the embedding's padding id, or an id that many rows end in."""
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
