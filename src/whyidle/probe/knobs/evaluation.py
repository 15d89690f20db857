"""Runs evaluation without recording a graph for a backward pass.

Whether a call in evaluation mode needs gradients is observed, not read from the script: calls from
each line stay unchanged until training has continued for a step after the first of them. If a
gradient passes through the result of one of them (attacks, consistency losses, forces), the knob
declines.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..frameworks.torch.tracing import tracing_query
from . import NO_FORM, KnobSession
from .model import Call, wrap_outermost

KNOB = "evaluation.gradients"
LATE = (
    "whyidle: the plan disables gradients in evaluation; remove evaluation.gradients from the plan "
    "if an evaluation needs them"
)
LEARNED = "a gradient was computed during an evaluation, or of its result"
NEVER = "the model was not called in evaluation mode while it ran"
NO_GRAPH = "evaluation already runs without gradients"
ONE_ONLY = "too few evaluations ran: the first one from each line stays unchanged"
LONGER = "; whyidle fix runs the job for longer with a larger --budget"
FAST = "without gradients PyTorch computes a part of its attention in another way"
ASKED = "an input of the model in evaluation requires gradients itself"
DEPTH = 4
"""levels of containers and objects of a result that are searched for tensors"""
Site = tuple[str, int]
"""file and line of the job from which a model is called"""


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Run calls of the model in evaluation mode without a graph."""
    session.decline_knobs([knob for knob in edits if knob != KNOB], NO_FORM)
    if edits.get(KNOB) is not False:
        return
    evaluation = EvaluationCalls(session)
    session.wait_for([KNOB], evaluation.explain_absence)
    wrap_outermost(session, {KNOB: False}, evaluation.wrap_model)
    session.after_steps(evaluation.note_step)
    _explain_late_gradients(session)


class EvaluationCalls:
    """The lines from which the model is called in evaluation mode."""

    def __init__(self, session: KnobSession) -> None:
        self.session = session
        self.observed: set[Site] = set()
        """lines of the current evaluation"""
        self.ended: set[Site] = set()
        """lines of an evaluation that ended, before the optimizer's next step"""
        self.proven: set[Site] = set()
        self.steps = 0
        self.why = NEVER + LONGER

    def explain_absence(self) -> str:
        """Why no call was changed so far; empty if nothing was trained."""
        return self.why if self.steps else ""

    def note_step(self, step: int) -> None:
        """Accept lines after a step, which has computed all gradients it needed."""
        self.steps = step
        self.proven |= self.ended
        self.ended.clear()

    def wrap_model(self, model: Any, call: Call) -> Call:
        """Wrap the model's call to run without a graph where that is safe."""
        import torch

        compiling, fast = tracing_query(), _attends_fast(model)

        def evaluate(*args: Any, **named: Any) -> Any:
            if compiling() or model.training or KNOB in self.session.declined:
                self.ended |= self.observed
                self.observed.clear()
                return call(*args, **named)
            asks = any(
                getattr(argument, "requires_grad", False) for argument in (*args, *named.values())
            )
            if fast or asks or not torch.is_grad_enabled():
                self._note_reason(FAST if fast else ASKED if asks else NO_GRAPH)
                return call(*args, **named)
            site = _calling_site()
            if site in self.proven:
                self.session.record_applied(KNOB)
                with disable_graph():
                    return call(*args, **named)
            self._note_reason(ONE_ONLY + LONGER)
            result = call(*args, **named)
            self.session.run_contained([KNOB], self._observe_result, site, result)
            return result

        return evaluate

    def _note_reason(self, why: str) -> None:
        if why != self.why:  # the process may be killed before its end
            self.why = why
            self.session.write_state()

    def _observe_result(self, site: Site, result: Any) -> None:
        graphs = [tensor.grad_fn for tensor in _find_tensors(result) if tensor.grad_fn is not None]
        for graph in graphs:
            graph.register_prehook(self._on_gradient)
        if graphs:
            self.observed.add(site)

    def _on_gradient(self, _: Any) -> None:
        if KNOB not in self.session.declined:
            self.session.decline_knobs([KNOB], LEARNED)


@contextlib.contextmanager
def disable_graph() -> Iterator[None]:
    """Disable the graph, and with it PyTorch's fast path of attention, which rounds differently and
    returns zeros at padding."""
    import torch

    switch = getattr(torch.backends, "mha", None)
    with torch.no_grad():
        if switch is None:
            yield
            return
        fast = switch.get_fastpath_enabled()
        switch.set_fastpath_enabled(False)
        try:
            yield
        finally:
            switch.set_fastpath_enabled(fast)


def _attends_fast(model: Any) -> bool:
    """Whether the model takes attention's fast path with a graph too, as frozen attention does, or
    the fast path cannot be disabled."""
    import torch

    attention = [
        module for module in model.modules() if isinstance(module, torch.nn.MultiheadAttention)
    ]
    frozen = any(not any(p.requires_grad for p in module.parameters()) for module in attention)
    return frozen or (bool(attention) and not hasattr(torch.backends, "mha"))


def _calling_site() -> Site:
    """The job's line that calls the model, outside this package and PyTorch."""
    ours = __package__.rpartition(".")[0] + "."
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        (ours, "torch.")
    ):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _find_tensors(value: Any, depth: int = DEPTH) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif depth and not isinstance(value, (type, torch.nn.Module)):
        parts = value.values() if isinstance(value, Mapping) else value
        inside = list(parts) if isinstance(value, (Mapping, list, tuple, set)) else []
        for part in (*inside, *getattr(value, "__dict__", {}).values()):
            yield from _find_tensors(part, depth - 1)


def _explain_late_gradients(session: KnobSession) -> None:
    """Explain the error of a job that later asks for gradients of an evaluation."""
    import torch

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def grad(*args: Any, **named: Any) -> Any:
            try:
                return original(*args, **named)
            except RuntimeError as error:
                late = bool(session.applied.get(KNOB)) and "require grad" in str(error)
                if late and hasattr(error, "add_note"):  # since Python 3.11
                    error.add_note(LATE)
                raise

        return grad

    session.replace_function(torch.autograd, "backward", make)
    session.replace_function(torch.autograd, "grad", make)
