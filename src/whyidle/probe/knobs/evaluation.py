"""Evaluation that keeps nothing for a backward pass, and computes batches together."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from . import NO_FORM, Hand, _ahead
from ._graphless import Listener, attends_fast, without_graph

KNOBS = ("evaluation.gradients", "evaluation.inference_mode")
LATE = (
    "whyidle: the plan has evaluation compute no gradients, and so it did; leave evaluation.* out "
    "of the plan where some evaluations need them"
)
Site = tuple[str, int]
"""file and line"""
LONGER = "; whyidle fix runs the job for longer with a larger --budget"
ONE_ONLY = (
    "too few evaluations ran: the first from each line is left as it is, and training must go on "
    "before the next one, to see that nothing is learned from it"
)
NO_GRAPH = "evaluation records no gradients as it is"
FAST = (
    "a part of its attention is frozen: PyTorch computes it in another way than the rest, and "
    "without gradients all of it alike"
)
ASKED = "what the model is given while it evaluates asks for gradients itself"


class Phases:
    """Evaluation, from ``eval()`` of the model until it is called in training mode again.

    That nothing is learned from a phase is seen, not assumed: the first one from each line of the
    script is left as it is, and counts as proof where no gradient was asked for in it, and none
    came to what the model gave in it until the optimizer has stepped. Who trains in evaluation mode
    (attacks, test-time training, forces as gradients) or from what came of it (pseudo-targets,
    consistency losses) is left alone for good.
    """

    def __init__(self) -> None:
        self.trained: set[int] = set()
        self.proven: set[Site] = set()
        self.ended: set[Site] = set()
        """lines whose evaluation is over"""
        self.past: set[Site] = set()
        """and after which the optimizer has stepped"""
        self.now: Site | None = None
        self.called = False
        self.changes = 0
        """how often one has begun or ended: weights are the same in between"""
        self.off = False
        self.model: Callable[[], Any] = lambda: None
        self.seen = 0
        """evaluations that have begun"""
        self.again = False
        """whether the model was called in one that was proven before"""
        self.without = False
        """whether gradients were off there as it is"""
        self.fast = False
        """whether its attention cannot be computed alike without a graph"""
        self.known: dict[int, bool] = {}
        """by id, which modules hold all that is trained: asked before every call in one"""

    def begin(self, model: Any, site: Site) -> None:
        """The model is put into evaluation mode there."""
        if site != self.now:
            self.now, self.called = site, False
        self.proven |= self.past
        self.changes += 1
        self.seen += 1
        self.known.clear()
        self.model = weakref.ref(model)
        self.fast = attends_fast(model)

    def end(self) -> None:
        """The model is called to be trained."""
        if self.now is not None and self.called:
            self.ended.add(self.now)
        self.changes += 1
        self.now = None

    def stepped(self) -> None:
        """The optimizer has: whatever its losses were made of has had its gradients."""
        self.past |= self.ended

    def learned(self) -> None:
        """Something is learned from an evaluation."""
        self.off = True

    def asked(self) -> None:
        """Somebody asks for gradients."""
        model = self.model()
        if model is not None and not model.training:
            self.learned()

    def trains(self, module: Any) -> bool:
        """Whether a call in training mode is one of the model, after an evaluation. Whoever puts a
        whole into evaluation mode may call what it only wraps."""
        if self.now is None or not getattr(self.model(), "training", False):
            return False
        return self.whole(module)

    def listens(self, module: Any) -> bool:
        """Whether a call in evaluation mode is left as it is, to see what becomes of it."""
        if self.off or self.now is None or self.now in self.proven:
            return False
        return self.whole(module)

    def applies(self, module: Any, args: Any, kwargs: dict[str, Any]) -> bool:
        """Whether a call in evaluation mode may forget how it came to its result."""
        if self.now is None or not self.whole(module):
            return False
        self.called = True
        if self.off or self.now not in self.proven:
            return False
        self.again = True
        given = (*args, *kwargs.values())
        return not self.fast and not any(getattr(value, "requires_grad", False) for value in given)

    def missing(self) -> str:
        """What is missing to take hold in an evaluation; empty where nothing is, or where nothing
        was trained, as in a process that only starts others."""
        if not self.trained:
            return ""
        if not self.seen:
            return f"the model was not put into evaluation mode (eval()) while it ran{LONGER}"
        if self.off:
            return "gradients are asked for while it evaluates, or of what it gave then"
        if not self.again:
            return f"{ONE_ONLY}{LONGER}"
        return ""

    def kept(self) -> str:
        """Why no graph was spared, where evaluations were seen in which it could be; empty as in
        ``missing``."""
        if not self.trained:
            return ""
        return self.missing() or (NO_GRAPH if self.without else FAST if self.fast else ASKED)

    def whole(self, module: Any) -> bool:
        """Whether it holds every parameter that is trained, so that it is the model."""
        if not self.trained:
            return False
        if id(module) not in self.known:
            self.known[id(module)] = self.trained <= {id(p) for p in module.parameters()}
        return self.known[id(module)]


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Calls of the model record no graph in evaluation, and may take several batches. A frozen part
    of a model is not evaluation."""
    import torch

    own = [knob for knob in edits if knob in KNOBS]
    hand.decline([knob for knob in edits if knob not in (*KNOBS, _ahead.KNOB)], NO_FORM)
    phases = Phases()
    _watch_learning(hand, list(edits), phases)
    times = int(edits.get(_ahead.KNOB, 1))
    ahead = _ahead.Ahead(hand, phases, times) if times > 1 else None
    hand.waits(own, phases.kept)
    if ahead is not None:
        hand.waits([_ahead.KNOB], lambda: phases.missing() or (phases.trained and ahead.why) or "")
    listener = Listener(hand, own, phases.learned)
    kinds: set[type] = set()

    def begins(module: Any, site: Site) -> None:
        if phases.whole(module):
            phases.begin(module, site)
            if not hand.applied:  # the process may be killed before its end
                hand.tell()
            for kind in {type(one) for one in _wholes(phases, module)} - kinds:
                kinds.add(kind)
                if ahead is not None:
                    hand.replace(kind, "__call__", _together(ahead))
                hand.replace(kind, "__call__", _calls(hand, own, phases, listener))

    def make_eval(original: Callable[..., Any]) -> Callable[..., Any]:
        def evaluate(self: Any) -> Any:
            caller = sys._getframe(1)
            hand.contained(edits, begins, self, (caller.f_code.co_filename, caller.f_lineno))
            return original(self)

        return evaluate

    hand.replace(torch.nn.Module, "eval", make_eval)
    if ahead is not None:
        from torch.utils.data import dataloader

        hand.replace(dataloader._BaseDataLoaderIter, "__next__", _drawing(ahead))


def _watch_learning(hand: Hand, own: list[str], phases: Phases) -> None:
    """See what is trained, and when gradients are asked for."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def learn(optimizer: Any, *_: Any) -> None:
        if not phases.trained:
            phases.trained.update(id(p) for g in optimizer.param_groups for p in g["params"])
        phases.stepped()

    hand.undo.append(register_optimizer_step_post_hook(learn).remove)

    def make_grad(original: Callable[..., Any]) -> Callable[..., Any]:
        def grad(*args: Any, **kwargs: Any) -> Any:
            hand.contained(own, phases.asked)
            try:
                return original(*args, **kwargs)
            except RuntimeError as error:
                if hand.applied and phases.now in phases.proven and hasattr(error, "add_note"):
                    error.add_note(LATE)  # since Python 3.11
                raise

        return grad

    hand.replace(torch.autograd, "backward", make_grad)
    hand.replace(torch.autograd, "grad", make_grad)


def _drawing(ahead: _ahead.Ahead) -> Callable[..., Any]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def following(self: Any) -> Any:
            return ahead.next(self, lambda: original(self))

        return following

    return make


def _together(ahead: _ahead.Ahead) -> Callable[..., Any]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            return ahead.call(original, self, args, kwargs)

        return call

    return make


def _calls(hand: Hand, own: list[str], phases: Phases, listener: Listener) -> Callable[..., Any]:
    import torch

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if self.training:
                if phases.trains(self):
                    phases.end()
            elif phases.listens(self):
                phases.called = True
                ask = functools.partial(original, self, *args, **kwargs)
                return listener.call(phases.now, ask, self, (args, kwargs))
            elif phases.applies(self, args, kwargs) and own:
                if torch.is_grad_enabled() and own[0] in hand.declined:
                    return original(self, *args, **kwargs)
                if torch.is_grad_enabled():
                    hand.took(*own)
                    with without_graph():
                        return original(self, *args, **kwargs)
                if not phases.without:
                    phases.without = True
                    hand.tell()
            return original(self, *args, **kwargs)

        return call

    return make


def _wholes(phases: Phases, module: Any) -> Iterator[Any]:
    """The model and what it only wraps: scripts call either."""
    yield module
    for child in module.children():
        if phases.whole(child):
            yield from _wholes(phases, child)
