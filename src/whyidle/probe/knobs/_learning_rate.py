"""A learning rate that goes with a larger batch: linearly for SGD, by the square root for Adam.

It is scaled for the step alone and put back behind it: whatever sets it, a schedule or the script,
goes on with its own numbers. Only where a loader of the job was made with larger batches, and only
for optimizers of which a rule is known (Goyal et al., Accurate, Large Minibatch SGD, 2017; Malladi
et al., On the SDEs and Scaling Rules for Adaptive Gradient Algorithms, 2022).
"""

from __future__ import annotations

import weakref
from typing import Any

from ..frameworks.torch.tracing import tracing_query
from . import DeclinedError, KnobSession, _batch_resizing

KNOB = "optimizer.scale_learning_rate"
LINEAR = ("SGD", "ASGD")
ROOT = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "SparseAdam", "RMSprop", "Adagrad")
"""optimizers of ``torch.optim`` that divide by the size of past gradients"""


class Rates:
    """What the optimizers of a process have, while they step with more."""

    def __init__(self, hand: KnobSession, times: float) -> None:
        self.hand, self.times = hand, times
        self.before: weakref.WeakKeyDictionary[Any, list[float]] = weakref.WeakKeyDictionary()
        self.is_compiling = tracing_query()

    def begins(self, optimizer: Any, *_: Any) -> None:
        """A step begins."""
        larger = self.hand.applied.get(_batch_resizing.KNOB)
        if larger and KNOB not in self.hand.declined and not self.is_compiling():
            self.hand.run_contained([KNOB], self._attempt, optimizer)

    def _attempt(self, optimizer: Any) -> None:
        self.put_back(optimizer)  # a step that failed has left them
        try:
            factor = self.times ** power(optimizer)
        except DeclinedError as reason:
            self.hand.decline_knobs([KNOB], str(reason))
            return
        self.before[optimizer] = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] *= factor
        self.hand.record_applied(KNOB)

    def ends(self, optimizer: Any, *_: Any) -> None:
        """A step has ended."""
        if optimizer in self.before:
            self.hand.run_contained([KNOB], self.put_back, optimizer)

    def put_back(self, optimizer: Any) -> None:
        """What it had."""
        before = self.before.pop(optimizer, None)
        for group, rate in zip(optimizer.param_groups, before or (), strict=False):
            group["lr"] = rate


def turn(hand: KnobSession) -> None:
    """Scale the learning rate of each step by the size of its batch.

    Raises:
        DeclinedError: batches stay as they are.
    """
    from torch.optim import optimizer as base

    times = float(hand.edits.get(_batch_resizing.KNOB) or 1.0)
    if times == 1.0:
        raise DeclinedError("batches stay as large as they are")
    hand.wait_for([KNOB], "no loader was made with larger batches")
    rates = Rates(hand, times)
    hand.undo.append(base.register_optimizer_step_pre_hook(rates.begins).remove)
    hand.undo.append(base.register_optimizer_step_post_hook(rates.ends).remove)


def power(optimizer: Any) -> float:
    """Of the batch's factor, by which the learning rate grows.

    Raises:
        DeclinedError: no rule is known, or it is kept where Python cannot change it for a step.
    """
    import torch

    if not all(isinstance(group["lr"], (int, float)) for group in optimizer.param_groups):
        raise DeclinedError("the learning rate is a tensor")
    for names, grows in ((LINEAR, 1.0), (ROOT, 0.5)):
        if isinstance(optimizer, tuple(getattr(torch.optim, name) for name in names)):
            return grows
    raise DeclinedError(f"no rule is known for {type(optimizer).__name__}")
