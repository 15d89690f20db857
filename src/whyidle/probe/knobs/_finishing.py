"""Exchanges of gradients that are finished where parameters went unused and nobody looked for them.

What the search would have come to: the reducer is told of these parameters, without a gradient, and
those that no rank used keep the gradient that they had. For the latter each rank leaves word of
what it lacks in the store *before* it finishes, so that whoever has seen the exchange end can read
what all of them lacked.
"""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Callable
from typing import Any

from . import Hand

KNOB = "ddp.find_unused_parameters"
UNUSED = "parameters went unused, and were exchanged all the same: the search is of use here"
LACKED = re.compile(r"Parameter indices which did not receive grad for rank \d+: ([\d ]+)(\.{3})?")
"""PyTorch lists a hundred of them at most"""


class Exchange:
    """One wrapper's exchanges, of which each is finished before anybody uses the gradients."""

    def __init__(self, model: Any, key: str, hand: Hand) -> None:
        import torch
        import torch.distributed as dist

        self.hand, self.key = hand, key
        self.model = weakref.ref(model)
        self.store = dist.distributed_c10d._get_default_store()
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.parameters = list(model._build_params_for_reducer()[0])
        self.expected = False
        """a forward pass has been, and its gradients are not exchanged yet"""
        self.begun = False
        self.kept = False
        """since the last exchange gradients may have been accumulated without one"""
        self.number = 0
        """exchanges so far: the same on all ranks"""
        self.told: list[int] = []
        with torch.enable_grad():
            first = self.parameters[0]
            accumulator = first.view_as(first).grad_fn.next_functions[0][0]
        accumulator.register_hook(self._begun)

    def _begun(self, *_: Any) -> None:
        self.begun = True

    def reducer(self) -> Any:
        """What exchanges; None where the model is gone."""
        return getattr(self.model(), "reducer", None)

    def ended(self, backward: Callable[..., Any], whole: bool) -> None:
        """A backward pass has ended. Where it was another model's, this exchange has not begun."""
        lacking, more = self._lacking()
        if lacking and not whole:  # the script has more to come
            return
        if lacking:
            self._finish(lacking, more, backward)
        elif not self.begun:
            return
        self.expected = self.begun = self.kept = False
        self.number += 1

    def _lacking(self) -> tuple[list[int], bool]:
        """Numbers of the parameters that an exchange which has begun still waits for, or of some
        and that there are more."""
        try:
            self.reducer()._check_reducer_finalized()
        except RuntimeError as error:
            found = LACKED.search(str(error))
            if found is None:
                raise
            return [int(one) for one in found[1].split()], found[2] is not None
        return [], False

    def _finish(self, lacking: list[int], more: bool, backward: Callable[..., Any]) -> None:
        """The last ones are what the exchange ends with: before them, the others must be told."""
        had: dict[int, Any] = {}
        while True:
            left = [self.parameters[one] for one in lacking]
            grads = [None if each.grad is None else each.grad.detach().clone() for each in left]
            had.update(zip(lacking, grads, strict=True))
            if not more:
                break
            _call_hooks(left, backward)
            lacking, more = self._lacking()
        self.hand.release(KNOB, UNUSED)
        told = self.hand.contained([KNOB], self._tell, had)
        _call_hooks(left, backward)
        unused = self.hand.contained([KNOB], self._unused_by_all, left[0]) if told else None
        for one in unused or ():
            _give_back(self.parameters[one], had[one])

    def _tell(self, had: dict[int, Any]) -> bool:
        """Leave word for the other ranks, and take away what all of them have read: since then this
        rank has seen an exchange end to which they came after they had. What a pass without
        exchange has accumulated is a use as well."""
        key = f"{self.key}/{self.number}"
        used = [one for one, grad in had.items() if self.kept and grad is not None and grad.any()]
        self.store.set(f"{key}/{self.rank}", json.dumps(sorted(set(had).difference(used))))
        self.store.add(f"{key}/ranks", 1)
        self.told.append(self.number)
        while len(self.told) > 2:
            old = f"{self.key}/{self.told.pop(0)}"
            self.store.delete_key(f"{old}/{self.rank}")
            self.store.delete_key(f"{old}/ranks")
        return True

    def _unused_by_all(self, parameter: Any) -> set[int]:
        """The exchange has ended: numbers of the parameters that no rank used. Ranks that have no
        batches left (``Join``) leave no word, and then these get zeros."""
        import torch

        if parameter.is_cuda:  # there the host is ahead of the exchange
            torch.cuda.synchronize(parameter.device)
        key = f"{self.key}/{self.number}"
        if self.store.add(f"{key}/ranks", 0) < self.world:
            return set()
        each = [set(json.loads(self.store.get(f"{key}/{one}"))) for one in range(self.world)]
        return set.intersection(*each)


def _call_hooks(parameters: list[Any], backward: Callable[..., Any]) -> None:
    """Call what is called when gradients of these have been accumulated, without any gradient."""
    import torch

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *given: Any) -> Any:
            ctx.count = len(given)
            return given[0].new_zeros(())

        @staticmethod
        def backward(ctx: Any, *_: Any) -> Any:
            return (None,) * ctx.count

    call: Callable[..., Any] = Nothing.apply
    with torch.enable_grad():
        backward(call(*parameters))


def _give_back(parameter: Any, grad: Any) -> None:
    """The gradient that a parameter had."""
    if grad is None:
        parameter.grad = None
    else:
        parameter.grad.detach().copy_(grad)
