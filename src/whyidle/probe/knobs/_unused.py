"""No search for unused parameters, and the same gradients all the same where some go unused.

The flag is the reducer's from the beginning: it cannot be changed later, and ranks that differ in
it wait for each other for ever. So all ranks agree before the wrapper is made without the search.
Afterwards each backward pass that leaves an exchange unfinished has left parameters out; the
exchange is finished at once, before anybody uses the gradients and as the other ranks do, and
nothing is left for the next forward pass to raise an error about. Where nothing is unused, nothing
is exchanged for it, and one call per step asks whether the exchange is finished.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable
from typing import Any

from ..frameworks.torch.tracing import tracing_query
from . import Hand
from ._agreement import agreed
from ._finishing import KNOB, Exchange

MET = itertools.count(1)
"""wrappers so far that were to search: the same number on all ranks"""
LONGEST_S = 60.0
"""how long a rank waits for the others to say that they leave out the search as well"""


class Search:
    """The wrappers of this process that are made without the search."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.without: list[Exchange] = []

    def turn(self, wrapper: Any) -> None:
        """Have wrappers of this class made without it, where all ranks say so."""
        import torch
        import torch.distributed as dist

        self.hand.replace_making(wrapper, self._init)
        self.hand.replace(vars(dist)["Reducer"], "prepare_for_backward", self._prepare)
        self.hand.replace(torch.autograd, "backward", self._backward)

    def _init(self, original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def init(model: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                bound = signature.bind(model, *args, **kwargs).arguments
            except TypeError:  # the script's own mistake, which PyTorch tells better
                return original(model, *args, **kwargs)
            if not bound.get("find_unused_parameters"):
                return original(model, *args, **kwargs)
            key = f"whyidle/{KNOB}/{next(MET)}"
            if not self.hand.contained([KNOB], self._may, bound, key):
                return original(model, *args, **kwargs)
            result = original(**{**bound, "find_unused_parameters": False})
            self.hand.contained([KNOB], self._watch, model, key)
            return result

        return init

    def _may(self, bound: dict[str, Any], key: str) -> bool:
        """Whether this wrapper is made without the search, on all ranks or on none."""
        import torch.distributed as dist

        store = dist.distributed_c10d._get_default_store()
        why = _refusal(bound)
        if why:
            store.compare_set(f"{key}/decided", "", "no")
        elif not agreed(store, key, dist.get_world_size(), LONGEST_S):
            why = "not all ranks said in time that they leave out the search as well"
        if why:
            self.hand.decline([KNOB], why)
        return not why

    def _watch(self, model: Any, key: str) -> None:
        self.without.append(Exchange(model, key, self.hand))
        self.hand.took(KNOB)

    def _prepare(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def prepare_for_backward(reducer: Any, *args: Any, **kwargs: Any) -> Any:
            for each in self.without:
                if each.reducer() is reducer:
                    each.expected = True
            return original(reducer, *args, **kwargs)

        return prepare_for_backward

    def _backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        import torch

        signature = inspect.signature(original)
        is_compiling = tracing_query()

        def backward(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not self.without or torch._C._current_graph_task_id() != -1:
                return original(*args, **kwargs)  # within another one, as checkpointing has it
            result = original(*args, **kwargs)
            whole = not signature.bind(*args, **kwargs).arguments.get("inputs")
            for each in self.without:
                if each.expected:
                    self.hand.contained([KNOB], each.ended, original, whole)
                else:
                    each.kept = True
            self.without = [each for each in self.without if each.reducer() is not None]
            return result

        return backward


def _refusal(bound: dict[str, Any]) -> str:
    """Why a wrapper is left as it is; empty where it need not be."""
    import torch.distributed as dist

    reducer = getattr(dist, "Reducer", None)
    group = bound.get("process_group")
    if bound.get("static_graph"):
        return "static_graph=True is set, which leaves out the search already"
    if bound.get("device_mesh") is not None or group not in (None, dist.group.WORLD):
        return "gradients are exchanged within a group of ranks of its own"
    others = ("mixed_precision", "delay_all_reduce_named_params", "delay_all_reduce_params")
    if any(bound.get(name) for name in others):
        return "gradients are exchanged in a way of their own"
    compiler = getattr(sys.modules.get("torch._dynamo"), "config", None)
    if getattr(compiler, "optimize_ddp", None) == "python_reducer":
        return "gradients are exchanged by compiled code"
    if not hasattr(reducer, "_check_reducer_finalized"):
        return "this PyTorch does not tell whether an exchange is finished (2.2 and later do)"
    return ""
