"""Evaluations, and steps that gradient scaling leaves out. Both are rare."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ... import wire
from ...core.events import Events
from ...core.listener import Listener
from ...core.patching import Wrap
from ...core.recorder import ANNOTATION, clock_ns
from ...core.span_hooks import mark_place

WITHOUT_GRADIENTS = wire.EVALUATION, "evaluation"
WITH_GRADIENTS = wire.EVALUATION_WITH_GRADIENTS, "evaluation#grad"
"""role and label of evaluations"""


def install_evaluation_hooks(events: Events) -> None:
    """Wrap the switches between training and evaluation."""
    import torch

    _wrap_module_modes(events, torch)
    _wrap_grad_scaler(events, torch)


class EvaluationTracker(Listener):
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

    def note_eval(self, module: Any) -> None:
        """``module.eval()`` was called."""
        if not self.begin:
            self.begin, self.without = clock_ns(), not self.grad()
            self.evaluated = weakref.ref(module)
            self.wants_detail = True
            self.events.be_careful()
            for where, owner, name, wrap in self.switches:
                self.events.patch_function(where, owner, name, wrap(self))
            mark_place(self.events, self.begin)

    def on_batch_request(self) -> None:
        """A batch of training again, where the model trains."""
        if self.begin and getattr(self.evaluated(), "training", False):
            self.note_train()

    def on_batches_end(self) -> None:
        """The evaluation's loader has no more batches."""
        if self.begin:
            self.note_train()

    def on_backward_end(self, begin: int) -> None:
        """Only a part of the model was frozen."""
        if self.begin:
            self.end_evaluation()

    def note_train(self) -> None:
        """``Module.train()`` was called, or the evaluation's loader has no more batches."""
        begin = self.begin
        self.end_evaluation()
        if begin and self.events.steps:
            without = self.without or not self.grad()
            name = WITHOUT_GRADIENTS if without else WITH_GRADIENTS
            self.events.add_span(*name, ANNOTATION, begin)

    def end_evaluation(self) -> None:
        """It is over, or was none."""
        self.begin, self.wants_detail = 0, False
        for where, *_ in self.switches:
            self.events.undo.pop(where, bool)()


Switch = tuple[str, Any, str, Callable[[EvaluationTracker], Wrap]]
"""where, owner and name of what switches gradients off, and what to make of it"""


def _wrap_module_modes(events: Events, torch: Any) -> None:
    modes = (torch.no_grad, torch.inference_mode)
    switches: list[Switch] = [(kind.__name__, kind, "__enter__", _wrap_no_grad) for kind in modes]
    switches.append(("set_grad_enabled", torch.set_grad_enabled, "__init__", _wrap_grad_switch))
    evaluation = EvaluationTracker(events, torch.is_grad_enabled, switches)
    events.add_listener(evaluation)
    compiling = events.framework.is_tracing
    module = torch.nn.Module
    events.patch_function("evaluation", module, "eval", _wrap_eval(events, evaluation, compiling))
    events.patch_function(
        "evaluation end", module, "train", _wrap_train(events, evaluation, compiling)
    )


def _wrap_eval(
    events: Events, evaluation: EvaluationTracker, compiling: Callable[[], bool]
) -> Wrap:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(self: Any) -> Any:
            if not compiling():
                events.run_contained("evaluation", evaluation.note_eval, self)
            return original(self)

        return wrapper

    return wrap


def _wrap_train(
    events: Events, evaluation: EvaluationTracker, compiling: Callable[[], bool]
) -> Wrap:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(self: Any, mode: bool = True) -> Any:
            if evaluation.begin and mode and not compiling():
                events.run_contained("evaluation end", evaluation.note_train)
            return original(self, mode)

        return wrapper

    return wrap


def _wrap_no_grad(evaluation: EvaluationTracker) -> Wrap:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(self: Any) -> Any:
            evaluation.without = True
            return original(self)

        return wrapper

    return wrap


def _wrap_grad_switch(evaluation: EvaluationTracker) -> Wrap:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(self: Any, mode: bool) -> None:
            evaluation.without = evaluation.without or not mode
            original(self, mode)

        return wrapper

    return wrap


def _wrap_grad_scaler(events: Events, torch: Any) -> None:
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
            begin, before = clock_ns(), events.steps
            result = original(self, optimizer, *args, **kwargs)
            if events.steps == before:
                events.run_contained("scaler", skip, optimizer, begin)
            return result

        return wrapper

    events.patch_function("scaler", scaler, "step", steps)
