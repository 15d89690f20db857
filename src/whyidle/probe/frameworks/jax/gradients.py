"""Notes where gradients are taken: inside the trace of a compiled call, or in an unjitted loop."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ... import wire
from ...core.events import Events
from ...core.import_hooks import call_after_import
from ...core.recorder import ANNOTATION, clock_ns
from ...core.wrapped_functions import set_attribute
from .compiled_calls import CompiledCalls

HOOK, UPDATES, LABEL = "gradients", "updates", "optax.apply_updates"


class UncompiledStep:
    """Stands for the optimizer of a loop that is not compiled."""

    __module__ = "jax"


def install_gradient_hooks(events: Events, jax: Any, calls: CompiledCalls) -> None:
    """Watch ``jax.grad``, ``jax.value_and_grad``, and ``optax.apply_updates`` once imported."""
    watch = GradientMarks(events, calls)
    undoes = [
        set_attribute(jax, name, watch.wrap_transform(getattr(jax, name)))
        for name in ("grad", "value_and_grad")
    ]
    events.undo[HOOK] = lambda: [undo() for undo in undoes]
    events.undo[UPDATES] = call_after_import("optax", "apply_updates", watch.watch_updates)


class GradientMarks:
    """The functions that take gradients or apply them."""

    def __init__(self, events: Events, calls: CompiledCalls) -> None:
        from jax._src.core import trace_state_clean

        self.events, self.calls, self.is_clean = events, calls, trace_state_clean
        self.step = UncompiledStep()

    def wrap_transform(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function that turns a loss into a function that computes its gradient."""

        @functools.wraps(original)
        def transform(*args: Any, **kwargs: Any) -> Any:
            return self._wrap_gradient(original(*args, **kwargs))

        return transform

    def _wrap_gradient(self, gradient: Any) -> Any:
        if not callable(gradient):
            return gradient

        @functools.wraps(gradient)
        def compute(*args: Any, **kwargs: Any) -> Any:
            if self._is_traced():
                return gradient(*args, **kwargs)
            self.events.notify("on_backward_begin", args)
            begin = clock_ns()
            try:
                out = gradient(*args, **kwargs)
            finally:
                self.events.run_contained(HOOK, self.events.backward_ended, begin)
            note = self.calls.note_result
            return out if note is None else note((args, kwargs), out)

        return compute

    def watch_updates(self, optax: Any) -> None:
        """Wrap the function that ends the step of an optimizer."""
        original = optax.apply_updates

        @functools.wraps(original)
        def apply_updates(*args: Any, **kwargs: Any) -> Any:
            if self._is_traced():
                return original(*args, **kwargs)
            begin = clock_ns()
            try:
                return original(*args, **kwargs)
            finally:
                self.events.run_contained(UPDATES, self._end_step, begin)

        self.events.undo[UPDATES] = set_attribute(optax, "apply_updates", apply_updates)

    def _end_step(self, begin: int) -> None:
        events = self.events
        if self.calls.ended:  # a compiled call took the gradients, and is the step
            self.calls.ask_device()
            events.add_span(wire.NO_ROLE, LABEL, ANNOTATION, begin)
            return
        events.other_stepped(self.step, begin, clock_ns())
        events.steps += 1
        if events.steps >= events.due:
            events.attend_step(self.step)

    def _is_traced(self) -> bool:
        """Whether the gradient is part of a program that is being traced, or nothing is known."""
        try:
            traced = self.calls.mark_gradient() or not self.is_clean()
        except Exception as error:  # contained
            self.events.report_failure(HOOK, error)
            return True
        return traced or HOOK in self.events.off
