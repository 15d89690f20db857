"""Scales the learning rate with the batch: linearly for SGD, by the square root for Adam.

The rate is scaled during the step only and restored afterwards, so a schedule or the script
continues with its own values. Applies only if a loader of the job has larger batches, and to
optimizers with a known rule (Goyal et al., Accurate, Large Minibatch SGD, 2017; Malladi et al., On
the SDEs and Scaling Rules for Adaptive Gradient Algorithms, 2022).
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
    """Scales the rates of the optimizers of one process."""

    def __init__(self, session: KnobSession, times: float) -> None:
        self.session, self.times = session, times
        self.before: weakref.WeakKeyDictionary[Any, list[float]] = weakref.WeakKeyDictionary()
        self.is_compiling = tracing_query()

    def before_step(self, optimizer: Any, *_: Any) -> None:
        """Scale the rates before a step."""
        larger = self.session.applied.get(_batch_resizing.KNOB)
        if larger and KNOB not in self.session.declined and not self.is_compiling():
            self.session.run_contained([KNOB], self._scale_rates, optimizer)

    def _scale_rates(self, optimizer: Any) -> None:
        self.restore_rates(optimizer)  # a step that failed has left them
        try:
            factor = self.times ** rate_exponent(optimizer)
        except DeclinedError as reason:
            self.session.decline_knobs([KNOB], str(reason))
            return
        self.before[optimizer] = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] *= factor
        self.session.record_applied(KNOB)

    def after_step(self, optimizer: Any, *_: Any) -> None:
        """Restore the rates after a step."""
        if optimizer in self.before:
            self.session.run_contained([KNOB], self.restore_rates, optimizer)

    def restore_rates(self, optimizer: Any) -> None:
        """Restore the optimizer's own rates."""
        before = self.before.pop(optimizer, None)
        for group, rate in zip(optimizer.param_groups, before or (), strict=False):
            group["lr"] = rate


def scale_rates(session: KnobSession) -> None:
    """Scale the learning rate of each step by the size of its batch.

    Raises:
        DeclinedError: the plan has no larger batches.
    """
    from torch.optim import optimizer as base

    times = float(session.edits.get(_batch_resizing.KNOB) or 1.0)
    if times == 1.0:
        raise DeclinedError("the plan does not change the batch size")
    session.wait_for([KNOB], "no loader was given larger batches")
    rates = Rates(session, times)
    session.undo.append(base.register_optimizer_step_pre_hook(rates.before_step).remove)
    session.undo.append(base.register_optimizer_step_post_hook(rates.after_step).remove)


def rate_exponent(optimizer: Any) -> float:
    """Return the power of the batch's factor by which the learning rate grows.

    Raises:
        DeclinedError: no rule is known, or the rate is a tensor.
    """
    import torch

    if not all(isinstance(group["lr"], (int, float)) for group in optimizer.param_groups):
        raise DeclinedError("the learning rate is a tensor")
    for names, grows in ((LINEAR, 1.0), (ROOT, 0.5)):
        if isinstance(optimizer, tuple(getattr(torch.optim, name) for name in names)):
            return grows
    raise DeclinedError(f"no rule is known for {type(optimizer).__name__}")
