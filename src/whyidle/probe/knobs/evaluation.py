"""Evaluation that keeps nothing for a backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import Hand

KNOBS = ("evaluation.gradients", "evaluation.inference_mode")


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """From ``eval()`` of a module that holds all trained parameters to its ``train()`` its calls
    record no graph. A frozen part of a model is not evaluation, and neither is what is trained in
    evaluation mode: a backward pass ends it for good."""
    import torch

    own = [knob for knob in edits if knob in KNOBS]
    hand.decline([k for k in edits if k not in KNOBS], "the script makes its batches")
    trained: set[int] = set()
    state = {"on": True}

    def make_call(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if self.training or not state["on"] or not torch.is_grad_enabled():
                return original(self, *args, **kwargs)
            if not _whole(self, trained):
                return original(self, *args, **kwargs)
            hand.took(*own)
            with torch.no_grad():
                return original(self, *args, **kwargs)

        return call

    def learn(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not trained:
            trained.update(id(p) for group in optimizer.param_groups for p in group["params"])

    from torch.optim.optimizer import register_optimizer_step_post_hook

    hand.undo.append(register_optimizer_step_post_hook(learn).remove)
    seen: set[type] = set()

    def make_eval(original: Callable[..., Any]) -> Callable[..., Any]:
        def evaluate(self: Any) -> Any:
            kind = type(self)
            if kind not in seen and _whole(self, trained):
                seen.add(kind)
                hand.replace(kind, "__call__", make_call)
            return original(self)

        return evaluate

    hand.replace(torch.nn.Module, "eval", make_eval)


def _whole(module: Any, trained: set[int]) -> bool:
    """Whether it holds every parameter that is trained, so that it is the model."""
    return bool(trained) and trained <= {id(p) for p in module.parameters()}
