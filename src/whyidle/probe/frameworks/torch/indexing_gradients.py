"""Times the gradients of lookups and of parts of tensors in a few backward passes on the CPU.

The gradient of ``table(ids)`` or ``x[i]`` is a whole tensor, of which all but the rows or elements
that were read is zero. The graph of the loss holds the sizes. Its nodes are timed by hooks of their
own, which exist for one pass only. Nothing is read of any tensor.
"""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

from ...core.events import Events
from ...core.listener import Listener
from ...core.recorder import clock_ns
from ...wire import IndexingPass
from . import padding

MOST_NODES = 20_000
"""most nodes of a graph that are visited; of a larger one, nothing is known"""
MOST_PASSES = 12
PASSES = 3
"""consecutive backward passes that are timed"""
FIRST = 5
"""backward passes after the first step that are left out, as memory is new to them"""
LEAST_RATIO = 4
"""least size of such a gradient, in elements that were read: below it, zeros are cheap"""
HOOK_NS = 2_000
"""what the two hooks of a node add to its time (PyTorch 2.13)"""
PARTS = frozenset({"SelectBackward0", "SliceBackward0", "IndexBackward0", "IndexSelectBackward0"})
TABLES = "EmbeddingBackward0"
PARAMETER = "torch::autograd::AccumulateGrad"


class Read(NamedTuple):
    """A node whose gradient is mostly zeros."""

    node: Any
    size: int
    """elements of its gradient"""
    read: int
    """elements that were read"""
    table: Any
    """the node of the parameter that was looked up in; None for a part of a tensor"""


class IndexingGradients(Listener):
    """Times such gradients of the model that one process trains on the CPU."""

    listener = "gradients of indexing"

    def __init__(self, events: Events) -> None:
        self.events = events
        self.passes: list[IndexingPass] = []
        self.credit = padding.CREDIT_NS
        self.next = self.left = 0
        self.found = False
        """whether the last pass that was looked at has such gradients"""
        self._timers: list[_Timer] = []
        events.live_facts["indexing"] = lambda: list(self.passes)

    def on_training_begin(self, optimizer: Any) -> None:
        """Time a few passes soon: a short job has no other chance."""
        if self.events.recorder.facts.get("device") == "cpu":
            self._want(FIRST + PASSES)

    def on_chore(self) -> None:
        """Decide on the sampler's thread whether to time the next passes."""
        wanted = self.found and len(self.passes) < MOST_PASSES
        if wanted and not self.left and clock_ns() >= self.next:
            self._want(PASSES)

    def stop_listening(self) -> None:
        """Stop timing."""
        self._remove_hooks()
        self.left, self.found, self.wants_detail = 0, False, False

    def _want(self, passes: int) -> None:
        self.left, self.wants_detail = passes, True
        self.events.be_careful()

    def on_backward_begin(self, args: tuple[Any, ...]) -> None:
        """Hook the nodes of this pass if wanted."""
        if self._timers:  # a pass inside the one that is timed, as of a recomputation: neither
            self._remove_hooks()
        elif self.left:
            self.left -= 1
            if self.left < PASSES and args:
                self._hook_nodes(args[0])

    def _hook_nodes(self, loss: Any) -> None:
        begin, cost = clock_ns(), time.thread_time_ns()
        self._timers = [_Timer(read) for read in find_reads(loss)]
        self.found = bool(self._timers)
        if not self.found:
            self.left = 0
        spent = time.thread_time_ns() - cost
        share = padding.EARLY_BUDGET if self.credit > 0 else padding.BUDGET
        self.credit -= spent
        self.next = max(self.next, begin) + int(spent / share)

    def on_backward_end(self, begin: int) -> None:
        """Note the times of this pass."""
        if self._timers:
            self.passes.append(_describe_pass(begin, clock_ns() - begin, self._timers))
            self._remove_hooks()
        self.wants_detail = self.left > 0

    def _remove_hooks(self) -> None:
        for timer in self._timers:
            timer.remove()
        self._timers = []


class _Timer:
    """Two hooks of a node. They keep nothing of the tensors that they are called with."""

    def __init__(self, read: Read) -> None:
        self.read, self.begin, self.end, self.spent = read, 0, 0, 0
        self._hooks = [
            read.node.register_prehook(self._begin),
            read.node.register_hook(self._end),
        ]

    def _begin(self, gradients: Any) -> None:
        self.begin = clock_ns()

    def _end(self, inputs: Any, outputs: Any) -> None:
        self.end = clock_ns()
        self.spent = max(0, self.end - self.begin - HOOK_NS)

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()


def _describe_pass(begin: int, took: int, timers: list[_Timer]) -> IndexingPass:
    timers = [timer for timer in timers if timer.begin and timer.end]  # others did not run
    parts = [timer for timer in timers if timer.read.table is None]
    tables = {id(one.read.table): one.read.size for one in timers if one.read.table is not None}
    return {
        "begin": begin,
        "pass_ns": took,
        "tables_ns": sum(timer.spent for timer in timers) - sum(timer.spent for timer in parts),
        "table_elements": sum(tables.values()),
        "parts_ns": sum(timer.spent for timer in parts),
        "parts": len(parts),
        "among_ns": max((one.end for one in parts), default=0)
        - min((one.begin for one in parts), default=0),
        "filled": sum(timer.read.size for timer in timers),
        "read": sum(timer.read.read for timer in timers),
    }


def find_reads(loss: Any) -> list[Read]:
    """Return the nodes of a loss's graph whose gradients are mostly zeros; none if the graph is too
    large to tell. Of a table that is used otherwise, too, the gradient is dense anyway."""
    roots = loss if isinstance(loss, (list, tuple)) else [loss]
    left = [getattr(root, "grad_fn", None) for root in roots]
    seen: set[Any] = set()
    reads: list[Read] = []
    dense: set[Any] = set()
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if len(seen) > MOST_NODES:
            return []
        name, inner = node.name(), [one for one, _ in node.next_functions if one is not None]
        read = _describe_read(node, name, inner)
        if read is not None and read.size >= LEAST_RATIO * read.read:
            reads.append(read)
        if name != TABLES:
            dense.update(one for one in inner if one.name() == PARAMETER)
        left += inner
    return [read for read in reads if read.table is None or read.table not in dense]


def _describe_read(node: Any, name: str, inner: list[Any]) -> Read | None:
    if name in PARTS:
        size = math.prod(getattr(node, "_saved_self_sym_sizes", ()) or (0,))
        return Read(node, size, _output_size(node), None)
    if name != TABLES or getattr(node, "_saved_sparse", True) or len(inner) != 1:
        return None
    if inner[0].name() != PARAMETER:
        return None
    variable = inner[0].variable
    return Read(node, variable.numel(), _output_size(node), inner[0])


def _output_size(node: Any) -> int:
    """Elements that a node's operator returned; very many if this PyTorch does not tell."""
    metadata = getattr(node, "_input_metadata", None)
    return math.prod(metadata[0].shape) if metadata else 1 << 62
