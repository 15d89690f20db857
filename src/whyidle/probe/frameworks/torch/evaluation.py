"""Evaluations, and steps that gradient scaling leaves out. Both are rare."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ... import wire
from ...core.events import Events
from ...core.listener import Listener
from ...core.patching import Wrap
from ...core.recorder import ANNOTATION, now
from ...core.span_hooks import mark_place

WITHOUT_GRADIENTS = wire.EVALUATION, "evaluation"
WITH_GRADIENTS = wire.EVALUATION_WITH_GRADIENTS, "evaluation#grad"
"""role and label of evaluations"""


def install(events: Events) -> None:
    """Wrap the switches between training and evaluation."""
    import torch

    _evaluation(events, torch)
    _scaler(events, torch)


class Evaluation(Listener):
    """From ``Module.eval()`` to the return to training. A backward in between shows that only a
    part of the model, or another model, was frozen: then it was no evaluation. Where a framework
    returns to training without ``Module.train()`` (Lightning sets each module's flag), the model
    is found to train when the next batch is asked for.

    Only in between are ``switches`` on, which tell whether gradients were ever off: optimizers go
    through the same calls in every step.
    """

    listener = "evaluation batches"

    def __init__(self, events: Events, grad: Callable[[], bool], switches: list[Switch]) -> None:
        self.events, self.grad, self.switches = events, grad, switches
        self.begin = 0
        self.evaluated: Callable[[], Any] = bool
        """the module whose ``eval()`` began it, while it lives"""
        self.without = False
        """whether gradients were off at some moment of it"""

    def opens(self, module: Any) -> None:
        """``module.eval()`` was called."""
        if not self.begin:
            self.begin, self.without = now(), not self.grad()
            self.evaluated = weakref.ref(module)
            self.wants_detail = True
            self.events.alert()
            for where, owner, name, wrap in self.switches:
                self.events.patch(where, owner, name, wrap(self))
            mark_place(self.events, self.begin)

    def on_batch_request(self) -> None:
        """A batch of training again, where the model trains."""
        if self.begin and getattr(self.evaluated(), "training", False):
            self.closes()

    def on_batches_end(self) -> None:
        """The evaluation's loader has no more batches."""
        if self.begin:
            self.closes()

    def on_backward_end(self, begin: int) -> None:
        """Only a part of the model was frozen."""
        if self.begin:
            self.ends()

    def closes(self) -> None:
        """``Module.train()`` was called, or the evaluation's loader has no more batches."""
        begin = self.begin
        self.ends()
        if begin and self.events.steps:
            without = self.without or not self.grad()
            name = WITHOUT_GRADIENTS if without else WITH_GRADIENTS
            self.events.span(*name, ANNOTATION, begin)

    def ends(self) -> None:
        """It is over, or was none."""
        self.begin, self.wants_detail = 0, False
        for where, *_ in self.switches:
            self.events.undo.pop(where, bool)()


Switch = tuple[str, Any, str, Callable[[Evaluation], Wrap]]
"""where, owner and name of what switches gradients off, and what to make of it"""


def _evaluation(events: Events, torch: Any) -> None:
    modes = (torch.no_grad, torch.inference_mode)
    switches: list[Switch] = [(kind.__name__, kind, "__enter__", _without) for kind in modes]
    switches.append(("set_grad_enabled", torch.set_grad_enabled, "__init__", _switched))
    evaluation = Evaluation(events, torch.is_grad_enabled, switches)
    events.subscribe(evaluation)
    compiling = events.framework.is_tracing
    module = torch.nn.Module
    events.patch("evaluation", module, "eval", _evals(events, evaluation, compiling))
    events.patch("evaluation end", module, "train", _trains(events, evaluation, compiling))


def _evals(events: Events, evaluation: Evaluation, compiling: Callable[[], bool]) -> Wrap:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(self: Any) -> Any:
            if not compiling():
                events.contained("evaluation", evaluation.opens, self)
            return original(self)

        return wrapper

    return wrap


def _trains(events: Events, evaluation: Evaluation, compiling: Callable[[], bool]) -> Wrap:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(self: Any, mode: bool = True) -> Any:
            if evaluation.begin and mode and not compiling():
                events.contained("evaluation end", evaluation.closes)
            return original(self, mode)

        return wrapper

    return wrap


def _without(evaluation: Evaluation) -> Wrap:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(self: Any) -> Any:
            evaluation.without = True
            return original(self)

        return wrapper

    return wrap


def _switched(evaluation: Evaluation) -> Wrap:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(self: Any, mode: bool) -> None:
            evaluation.without = evaluation.without or not mode
            original(self, mode)

        return wrapper

    return wrap


def _scaler(events: Events, torch: Any) -> None:
    """A step that gradient scaling skips is a step all the same."""
    scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler

    skipped = 0
    events.live_facts["skipped_steps"] = lambda: skipped

    def skip(optimizer: Any, begin: int) -> None:
        nonlocal skipped
        skipped += 1
        events.step_skipped(optimizer, begin)

    def steps(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            begin, before = now(), events.steps
            result = original(self, optimizer, *args, **kwargs)
            if events.steps == before:
                events.contained("scaler", skip, optimizer, begin)
            return result

        return wrapper

    events.patch("scaler", scaler, "step", steps)
