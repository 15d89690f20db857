"""Records evaluations, and steps that gradient scaling skips."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from ... import wire
from ...core.events import Events
from ...core.listener import Listener
from ...core.recorder import ANNOTATION, clock_ns
from ...core.span_hooks import mark_place

Original = Callable[..., Any]
WITHOUT_GRADIENTS = wire.EVALUATION, "evaluation"
WITH_GRADIENTS = wire.EVALUATION_WITH_GRADIENTS, "evaluation#grad"
"""role and label of evaluations"""


def install_evaluation_hooks(events: Events) -> None:
    """Wrap the switches between training and evaluation."""
    import torch

    _wrap_module_modes(events, torch)
    _wrap_grad_scaler(events, torch)


class EvaluationTracker(Listener):
    """Records the time from ``Module.eval()`` to the return to training.

    A backward pass in between shows that only a part of the model, or another model, was frozen:
    then it was no evaluation. If a framework returns to training without ``Module.train()``, as
    Lightning does by setting each module's flag, this is noticed at the next request of a batch.

    ``switches`` are wrapped only in between, to record whether gradients were ever off, as
    optimizers call the same functions in every step.
    """

    listener = "evaluation batches"

    def __init__(self, events: Events, grad: Callable[[], bool], switches: list[Switch]) -> None:
        self.events, self.grad, self.switches = events, grad, switches
        self.begin = 0
        self.evaluated: Callable[[], Any] = bool
        """weak reference to the module whose ``eval()`` began the evaluation"""
        self.without = False
        """whether gradients were off at some time in it"""

    def note_eval(self, module: Any) -> None:
        """Note a call of ``module.eval()``."""
        if not self.begin:
            self.begin, self.without = clock_ns(), not self.grad()
            self.evaluated = weakref.ref(module)
            self.wants_detail = True
            self.events.be_careful()
            for where, owner, name, wrap in self.switches:
                self.events.patch_function(where, owner, name, partial(wrap, self))
            mark_place(self.events, self.begin)

    def on_batch_request(self) -> None:
        """End the evaluation if the model trains again."""
        if self.begin and getattr(self.evaluated(), "training", False):
            self.note_train()

    def on_batches_end(self) -> None:
        """End the evaluation with its loader."""
        if self.begin:
            self.note_train()

    def on_backward_end(self, begin: int) -> None:
        """Discard the evaluation: only a part of the model was frozen."""
        if self.begin:
            self.end_evaluation()

    def note_train(self) -> None:
        """Record the evaluation after ``Module.train()`` or at the end of its loader."""
        begin = self.begin
        self.end_evaluation()
        if begin and self.events.steps:
            without = self.without or not self.grad()
            name = WITHOUT_GRADIENTS if without else WITH_GRADIENTS
            self.events.add_span(*name, ANNOTATION, begin)

    def end_evaluation(self) -> None:
        """Stop tracking the evaluation."""
        self.begin, self.wants_detail = 0, False
        for where, *_ in self.switches:
            self.events.undo.pop(where, bool)()

    def wrap_eval(self, original: Original) -> Original:
        """Wrap ``Module.eval()``."""
        events, compiling = self.events, self.events.framework.is_tracing

        def wrapper(module: Any) -> Any:
            if not compiling():
                events.run_contained("evaluation", self.note_eval, module)
            return original(module)

        return wrapper

    def wrap_train(self, original: Original) -> Original:
        """Wrap ``Module.train()``."""
        events, compiling = self.events, self.events.framework.is_tracing

        def wrapper(module: Any, mode: bool = True) -> Any:
            if self.begin and mode and not compiling():
                events.run_contained("evaluation end", self.note_train)
            return original(module, mode)

        return wrapper

    def wrap_no_grad(self, original: Original) -> Original:
        """Wrap the start of a context without gradients."""

        def wrapper(context: Any) -> Any:
            self.without = True
            return original(context)

        return wrapper

    def wrap_grad_switch(self, original: Original) -> Original:
        """Wrap ``set_grad_enabled``."""

        def wrapper(context: Any, mode: bool) -> None:
            self.without = self.without or not mode
            original(context, mode)

        return wrapper


Switch = tuple[str, Any, str, Callable[[EvaluationTracker, Original], Original]]
"""hook, owner and name of a function that switches gradients off, and its wrapper"""


def _wrap_module_modes(events: Events, torch: Any) -> None:
    off = EvaluationTracker.wrap_no_grad
    switches: list[Switch] = [
        (kind.__name__, kind, "__enter__", off) for kind in (torch.no_grad, torch.inference_mode)
    ]
    switch = torch.set_grad_enabled
    switches.append((switch.__name__, switch, "__init__", EvaluationTracker.wrap_grad_switch))
    evaluation = EvaluationTracker(events, torch.is_grad_enabled, switches)
    events.add_listener(evaluation)
    module = torch.nn.Module
    events.patch_function("evaluation", module, "eval", evaluation.wrap_eval)
    events.patch_function("evaluation end", module, "train", evaluation.wrap_train)


def _wrap_grad_scaler(events: Events, torch: Any) -> None:
    """Record steps that gradient scaling skips."""
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
