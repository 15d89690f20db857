"""Evaluation in larger batches: the model computes the batches to come along with the present one.

The script gets the same batches, one by one, and for each of them its own part of the results, so
that whatever it makes of them comes out the same but for rounding. What it does to a batch before
the model gets it is not known and need not be: the model's inputs must be parts of the batch, on
the model's device and in its type, value by value, or else the batch is computed by itself. So it
is where results are not one for each sample, and nothing is believed: of the first groups every
batch is computed by itself as well, and both must be the same but for rounding.

Left alone: what is no evaluation (`evaluation.Phases`), loaders that shuffle, models that are
compiled or have hooks, that change their buffers when they are called, and several ranks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core import containment as guard
from . import DeclinedError, Hand
from ._codec import PLAIN
from ._structures import Path, at, equal, moves, near, parts, rebuilt, sizes_of, split
from ._untouched import State

KNOB = "evaluation.batch_factor"
PROVE, EVERY = 3, 64
"""so many groups at first, and then one of so many, are computed both ways"""
MISSES = 6
"""calls in a row whose inputs are no parts of the batch, after which it is given up"""


FEW = (
    "evaluation has too few batches: those of the first groups are computed one by one as well, to "
    "see that results are the same"
)
UNORDERED = "the loader that evaluation asks gives its samples in another order than theirs"


class Group:
    """Batches that are drawn together, and what became of them."""

    def __init__(self, batches: Sequence[Any]) -> None:
        self.batches = batches
        self.at = -1
        """which one was handed out last"""
        self.given: dict[Path, Sequence[Any]] = {}
        """by place among the model's inputs, one for each batch"""
        self.rest: list[tuple[Path, Any]] = []
        """inputs that are no tensors"""
        self.results: list[Any] = []
        """of each batch, until it is asked for"""
        self.model: Any = None
        """which they are of: scripts call a model, or what it only wraps"""
        self.changes = -1
        """how many evaluations had begun and ended when they were computed"""


class Line:
    """What one iterator has drawn and not handed out."""

    def __init__(self) -> None:
        self.ready: deque[Any] = deque()
        self.group = Group(())
        self.error: Exception | None = None
        """came instead of a batch: the end, most often"""

    def fill(self, draw: Callable[[], Any], count: int) -> None:
        """Draw so many batches, if there are."""
        try:
            while len(self.ready) < count:
                self.ready.append(draw())
        except Exception as error:  # raised again when it is its turn
            self.error = error

    def take(self) -> Any:
        """The next batch.

        Raises:
            Exception: what drawing it raised.
        """
        if self.ready:
            return self.ready.popleft()
        error, self.error = self.error, None
        raise error or StopIteration


class Ahead:
    """The evaluations of one process."""

    def __init__(self, hand: Hand, phases: Any, times: int) -> None:
        self.hand, self.phases, self.times = hand, phases, times
        self.handed: deque[tuple[Group, int]] = deque(maxlen=2)
        """what was handed out last, each as one of its group: loaders that stand before PyTorch's,
        as accelerate's, ask for the next batch before they give the one that they have"""
        self.off = self.inside = False
        self.misses = self.groups = 0
        self.why = "evaluation asks no DataLoader for its batches"
        """nothing was computed together so far"""

    # -- batches ----------------------------------------------------------------------------

    def next(self, iterator: Any, draw: Callable[[], Any]) -> Any:
        """The next batch of an iterator; it was drawn already, where that was in an evaluation."""
        if not getattr(iterator, "_num_yielded", 1):  # it begins, maybe anew
            active, in_order = self.active(), _in_order(iterator)
            if active:
                self.why = FEW if in_order else UNORDERED
            iterator._whyidle_ahead = Line() if active and in_order else None
        line = getattr(iterator, "_whyidle_ahead", None)
        if line is None:
            self.handed.clear()
            return draw()
        if not line.ready and line.error is None:
            line.fill(draw, self.times if self.active() else 1)
            line.group = Group(tuple(line.ready))
        batch = line.take()
        line.group.at += 1
        self.handed.append((line.group, line.group.at))
        return batch

    def active(self) -> bool:
        """Whether this is an evaluation that has been seen before."""
        phases, model = self.phases, self.phases.model()
        seen = not self.off and not phases.off and phases.now in phases.proven
        return seen and model is not None and not model.training

    @property
    def proving(self) -> bool:
        """Whether the group is computed both ways."""
        return self.groups <= PROVE or self.groups % EVERY == 0

    def stop(self, why: str) -> None:
        """No more of it."""
        self.off = True
        self.handed.clear()
        self.hand.decline([KNOB], why)

    # -- calls ------------------------------------------------------------------------------

    def call(
        self, original: Callable[..., Any], model: Any, args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """What the model makes of its inputs."""
        import torch

        idle = self.inside or not self.handed or model.training or torch.is_grad_enabled()
        if idle or not self.active() or not self.phases.whole(model):
            return original(model, *args, **kwargs)
        found = self.hand.contained([KNOB], self._answer, original, model, (args, kwargs))
        if KNOB in self.hand.declined:
            self.off = True
        return original(model, *args, **kwargs) if found is None else found[0]

    def _answer(self, original: Callable[..., Any], model: Any, given: Any) -> tuple[Any] | None:
        """The results of the present batch; None where the model is to be asked."""
        try:
            asked = (original, model, given)
            place = next((one for one in reversed(self.handed) if self._is(*one, *asked)), None)
            if place is None:
                self._missed(self.handed[-1][0])
                return None
        except DeclinedError as reason:
            self.stop(str(reason))
            return None
        self.misses = 0
        group, at = place
        result, group.results[at] = group.results[at], None
        if self.proving:
            alone = self._ask(original, model, given)
            if not near(alone, result):
                self.stop("its results depend on what else is in the batch")
            return (alone,)
        self.hand.took(KNOB)
        return (result,)

    def _is(
        self, group: Group, at: int, original: Callable[..., Any], model: Any, given: Any
    ) -> bool:
        """Whether the model is given that batch of the group, and the results are there."""
        tensors, rest = parts(given)
        if at == 0 and not group.results and len(group.batches) > 1:
            self._compute(group, original, model, given)
        own = group.model is model and group.changes == self.phases.changes
        return own and _as_given(group, at, tensors, rest)

    def _missed(self, group: Group) -> None:
        if len(group.batches) < 2:  # the last batch, by itself
            return
        self.misses += 1
        if self.misses >= MISSES:
            raise DeclinedError("the model's inputs are not what its loader gives")

    def _compute(self, group: Group, original: Callable[..., Any], model: Any, given: Any) -> None:
        """The results of all its batches, if the inputs are parts of them.

        Raises:
            DeclinedError: the model is none that this can be done with.
        """
        import torch

        tensors, rest = parts(given)
        found = moves(tensors, group.batches[0])
        sizes = sizes_of(found, group.batches)
        if not found or sizes is None:
            return
        self.groups += 1
        if self.proving:
            check(model)
        joined = {
            place: torch.cat(
                [at(batch, path).to(tensor.device, tensor.dtype) for batch in group.batches]
            )
            for place, (tensor, path) in found.items()
        }
        # scripts and models change what they are given
        kept: dict[Path, Any] = {place: one.clone() for place, one in joined.items()}
        whole = self._safely(original, model, rebuilt(given, joined))
        if self.proving and not all(map(equal, joined.values(), kept.values())):
            raise DeclinedError("the model changes its inputs")
        group.given = {place: one.split(sizes) for place, one in kept.items()}
        group.rest, group.model, group.changes = rest, model, self.phases.changes
        group.results = [split(whole, sizes, number) for number in range(len(sizes))]

    def _safely(self, original: Callable[..., Any], model: Any, given: Any) -> Any:
        """What the model makes of them, where nothing else comes of it.

        Raises:
            DeclinedError: it fails, changes, or draws random numbers.
        """
        before = State(model) if self.proving else None
        try:
            whole = self._ask(original, model, given)
        except (RuntimeError, ValueError, TypeError, LookupError, AssertionError) as error:
            if guard.handling(error) is not None:
                raise
            if before is not None:
                before.put_back()
            raise DeclinedError(f"the model refuses larger batches: {error}") from error
        if before is not None and not before.holds(model):
            before.put_back()
            raise DeclinedError("the model draws random numbers, or changes when it is called")
        return whole

    def _ask(self, original: Callable[..., Any], model: Any, given: Any) -> Any:
        """What a call brings in which no other one counts."""
        self.inside = True
        try:
            return original(model, *given[0], **given[1])
        finally:
            self.inside = False


def check(model: Any) -> None:
    """Raises DeclinedError for a model whose calls are counted, seen, or fixed to a size."""
    import torch
    from torch.nn.modules import module

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        raise DeclinedError("ranks evaluate together")
    if module._global_forward_hooks or module._global_forward_pre_hooks:
        raise DeclinedError("calls of modules have hooks")
    for one in model.modules():
        if one._forward_hooks or one._forward_pre_hooks:
            raise DeclinedError(f"calls of {type(one).__name__} have hooks")
        if hasattr(one, "_orig_mod") or getattr(one, "_compiled_call_impl", None) is not None:
            raise DeclinedError("it is compiled, for batches of its size")


def _in_order(iterator: Any) -> bool:
    """Whether a loader's samples come one after the other, as in an evaluation."""
    from torch.utils.data import SequentialSampler

    sampler = getattr(iterator, "_index_sampler", None)
    return type(getattr(sampler, "sampler", None)) is SequentialSampler


def _as_given(
    group: Group, at: int, tensors: Mapping[Path, Any], rest: Sequence[tuple[Path, Any]]
) -> bool:
    """Whether the model is given what its results were computed of, and for the first time."""
    if not 0 <= at < len(group.results) or group.results[at] is None:
        return False
    if tensors.keys() != group.given.keys() or len(rest) != len(group.rest):
        return False
    if not all(map(_alike, rest, group.rest)):
        return False
    return all(equal(group.given[place][at], one) for place, one in tensors.items())


def _alike(one: tuple[Path, Any], other: tuple[Path, Any]) -> bool:
    """Whether two inputs that are no tensors are the same."""
    same = one[1] is other[1] or (type(one[1]) in PLAIN and one[1] == other[1])
    return same and type(one[1]) is type(other[1]) and one[0] == other[0]
