"""What interrupts or surrounds a step: evaluation, explicit collections, synchronisations.

All of it is rare, so each record may also note the caller's stack at once.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import wire
from ...core import containment
from ...core.patching import Wrap, mark, patch, spans
from ...core.recorder import ANNOTATION, PYTHON, RUNTIME, now
from .checkpoints import Saving

if TYPE_CHECKING:
    from ...core.events import Loop

READS = ("item", "cpu", "numpy", "tolist", "__bool__", "__float__", "__int__", "__repr__")
"""methods of a tensor that wait for a device"""
WITHOUT_GRADIENTS = wire.EVALUATION, "evaluation"
WITH_GRADIENTS = wire.EVALUATION_WITH_GRADIENTS, "evaluation#grad"
"""role and label of evaluations"""
WAITED_NS = 20_000
"""a read that returned sooner than this did not wait"""


def install(loop: Loop) -> None:
    """Wrap the call sites around a step."""
    import torch

    patch(
        loop,
        "gc.collect",
        gc,
        "collect",
        spans(loop, wire.GARBAGE_COLLECTION_CALL, "gc.collect", PYTHON),
    )
    Saving(loop).install(torch)
    _evaluation(loop, torch)
    _scaler(loop, torch)


class Evaluation:
    """From ``Module.eval()`` to the return to training. A backward in between shows that only a
    part of the model, or another model, was frozen: then it was no evaluation. Where a framework
    returns to training without ``Module.train()`` (Lightning sets each module's flag), the model
    is found to train when the next batch is asked for.

    Only in between are ``switches`` on, which tell whether gradients were ever off: optimizers go
    through the same calls in every step.
    """

    def __init__(self, loop: Loop, grad: Callable[[], bool], switches: list[Switch]) -> None:
        self.loop, self.grad, self.switches = loop, grad, switches
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
            self.loop.evaluating = self
            self.loop.alert()
            for where, owner, name, wrap in self.switches:
                patch(self.loop, where, owner, name, wrap(self))
            mark(self.loop, self.begin)

    def asked(self) -> None:
        """A batch is asked for: of training again, where the model trains."""
        if getattr(self.evaluated(), "training", False):
            self.closes()

    def closes(self) -> None:
        """``Module.train()`` was called, or the evaluation's loader has no more batches."""
        begin = self.begin
        self.ends()
        if begin and self.loop.steps:
            without = self.without or not self.grad()
            name = WITHOUT_GRADIENTS if without else WITH_GRADIENTS
            self.loop.span(*name, ANNOTATION, begin)

    def ends(self) -> None:
        """It is over, or was none."""
        self.begin, self.loop.evaluating = 0, None
        for where, *_ in self.switches:
            self.loop.undo.pop(where, bool)()


Switch = tuple[str, Any, str, Callable[[Evaluation], Wrap]]
"""where, owner and name of what switches gradients off, and what to make of it"""


def _evaluation(loop: Loop, torch: Any) -> None:
    modes = (torch.no_grad, torch.inference_mode)
    switches: list[Switch] = [(kind.__name__, kind, "__enter__", _without) for kind in modes]
    switches.append(("set_grad_enabled", torch.set_grad_enabled, "__init__", _switched))
    evaluation = Evaluation(loop, torch.is_grad_enabled, switches)
    compiling = containment.compiling()
    module = torch.nn.Module
    patch(loop, "evaluation", module, "eval", _evals(loop, evaluation, compiling))
    patch(loop, "evaluation end", module, "train", _trains(loop, evaluation, compiling))


def _evals(loop: Loop, evaluation: Evaluation, compiling: Callable[[], bool]) -> Wrap:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(self: Any) -> Any:
            if not compiling():
                loop.contained("evaluation", evaluation.opens, self)
            return original(self)

        return wrapper

    return wrap


def _trains(loop: Loop, evaluation: Evaluation, compiling: Callable[[], bool]) -> Wrap:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(self: Any, mode: bool = True) -> Any:
            if evaluation.begin and mode and not compiling():
                loop.contained("evaluation end", evaluation.closes)
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


def _scaler(loop: Loop, torch: Any) -> None:
    """A step that gradient scaling skips is a step all the same."""
    scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler

    def steps(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            begin, before = now(), loop.steps
            result = original(self, optimizer, *args, **kwargs)
            if loop.steps == before:
                loop.contained("scaler", _skipped, loop, optimizer, begin)
            return result

        return wrapper

    patch(loop, "scaler", scaler, "step", steps)


def _skipped(loop: Loop, optimizer: Any, begin: int) -> None:
    loop.skipped += 1
    loop.stepped(optimizer, begin)


def read(loop: Loop, name: str, kind: str) -> Wrap:
    """A read of a tensor, recorded where it is on this kind of device and had to be waited for."""
    span = f"{kind}StreamSynchronize (Tensor.{name})"
    resides = f"is_{kind}"
    is_compiling = containment.compiling()

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not getattr(self, resides, False):
                return original(self, *args, **kwargs)
            begin = now()
            try:
                return original(self, *args, **kwargs)
            finally:
                if now() - begin > WAITED_NS:
                    loop.contained(
                        f"Tensor.{name} ({kind})", loop.span, wire.SCALAR_READ, span, RUNTIME, begin
                    )

        return wrapper

    return wrap
