"""Evaluation that records no graph for a backward pass.

What a call in evaluation mode is for is seen, not read from the script: calls from each line are
left as they are until training has gone on for a step after the first of them. Where a gradient
passes through what one of them gave (attacks, consistency losses, forces), the model is left alone
for good.
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
    "whyidle: the plan has evaluation compute no gradients, and so it did; leave evaluation.* out "
    "of the plan where some evaluations need them"
)
LEARNED = "gradients are asked for while it evaluates, or of what it gave then"
NEVER = "the model was not called in evaluation mode while it ran"
NO_GRAPH = "evaluation records no gradients as it is"
ONE_ONLY = "too few evaluations ran: the first from each line is left as it is"
LONGER = "; whyidle fix runs the job for longer with a larger --budget"
FAST = "without gradients PyTorch computes a part of its attention in another way"
ASKED = "what the model is given while it evaluates asks for gradients itself"
DEPTH = 4
"""levels of containers and objects of a result that are searched for tensors"""
Site = tuple[str, int]
"""file and line of the job from which a model is called"""


def apply(hand: KnobSession, edits: dict[str, Any]) -> None:
    """Calls of the model in evaluation mode record no graph."""
    hand.decline_knobs([knob for knob in edits if knob != KNOB], NO_FORM)
    if edits.get(KNOB) is not False:
        return
    evaluation = EvaluationCalls(hand)
    hand.wait_for([KNOB], evaluation.why_not)
    wrap_outermost(hand, {KNOB: False}, evaluation.wrap_model)
    hand.after_steps(evaluation.note_step)
    _explain_late_gradients(hand)


class EvaluationCalls:
    """What is known of the lines from which the model is called in evaluation mode."""

    def __init__(self, hand: KnobSession) -> None:
        self.hand = hand
        self.observed: set[Site] = set()
        """called since the model was called in training mode"""
        self.ended: set[Site] = set()
        """and it was since, but the optimizer has not stepped since"""
        self.proven: set[Site] = set()
        self.steps = 0
        self.why = NEVER + LONGER

    def why_not(self) -> str:
        """Why it took no hold so far; empty where nothing was trained."""
        return self.why if self.steps else ""

    def note_step(self, step: int) -> None:
        """Whatever the step learned from has had its gradients."""
        self.steps = step
        self.proven |= self.ended
        self.ended.clear()

    def wrap_model(self, model: Any, call: Call) -> Call:
        """The call of the model without a graph, where that is safe."""
        import torch

        compiling, fast = tracing_query(), _attends_fast(model)

        def evaluate(*args: Any, **named: Any) -> Any:
            if compiling() or model.training or KNOB in self.hand.declined:
                self.ended |= self.observed
                self.observed.clear()
                return call(*args, **named)
            asks = any(getattr(one, "requires_grad", False) for one in (*args, *named.values()))
            if fast or asks or not torch.is_grad_enabled():
                self._note_reason(FAST if fast else ASKED if asks else NO_GRAPH)
                return call(*args, **named)
            site = _calling_site()
            if site in self.proven:
                self.hand.record_applied(KNOB)
                with without_graph():
                    return call(*args, **named)
            self._note_reason(ONE_ONLY + LONGER)
            found = call(*args, **named)
            self.hand.run_contained([KNOB], self._observe_result, site, found)
            return found

        return evaluate

    def _note_reason(self, why: str) -> None:
        if why != self.why:  # the process may be killed before its end
            self.why = why
            self.hand.write_state()

    def _observe_result(self, site: Site, found: Any) -> None:
        graphs = [one.grad_fn for one in _find_tensors(found) if one.grad_fn is not None]
        for graph in graphs:
            graph.register_prehook(self._on_gradient)
        if graphs:
            self.observed.add(site)

    def _on_gradient(self, _: Any) -> None:
        if KNOB not in self.hand.declined:
            self.hand.decline_knobs([KNOB], LEARNED)


@contextlib.contextmanager
def without_graph() -> Iterator[None]:
    """As it was but for the graph: PyTorch's attention has a faster way without one, which rounds
    otherwise, and gives zeros where a mask says padding."""
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
    """Whether it goes that way although a graph is recorded, as frozen attention does, or cannot be
    kept from it."""
    import torch

    attention = [one for one in model.modules() if isinstance(one, torch.nn.MultiheadAttention)]
    frozen = any(not any(p.requires_grad for p in one.parameters()) for one in attention)
    return frozen or (bool(attention) and not hasattr(torch.backends, "mha"))


def _calling_site() -> Site:
    """Whoever calls the model: past the frames of this package and of PyTorch."""
    ours = __package__.rpartition(".")[0] + "."
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        (ours, "torch.")
    ):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _find_tensors(found: Any, depth: int = DEPTH) -> Iterator[Any]:
    import torch

    if isinstance(found, torch.Tensor):
        yield found
    elif depth and not isinstance(found, (type, torch.nn.Module)):
        parts = found.values() if isinstance(found, Mapping) else found
        inside = list(parts) if isinstance(found, (Mapping, list, tuple, set)) else []
        for one in (*inside, *getattr(found, "__dict__", {}).values()):
            yield from _find_tensors(one, depth - 1)


def _explain_late_gradients(hand: KnobSession) -> None:
    """A job that asks for gradients of an evaluation later than this could see is told why there
    are none."""
    import torch

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def grad(*args: Any, **named: Any) -> Any:
            try:
                return original(*args, **named)
            except RuntimeError as error:
                late = bool(hand.applied.get(KNOB)) and "require grad" in str(error)
                if late and hasattr(error, "add_note"):  # since Python 3.11
                    error.add_note(LATE)
                raise

        return grad

    hand.replace_function(torch.autograd, "backward", make)
    hand.replace_function(torch.autograd, "grad", make)
