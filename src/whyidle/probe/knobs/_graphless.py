"""Calls of the model without a graph, and what is seen of it while it still records one.

Whether a graph is recorded should not change a number, but may: PyTorch chooses kernels by it, and
a script may ask. So some calls of an evaluation that is left as it is are computed without, too,
and must give the same. Not where a second call would do more than give a result: where modules have
hooks or are compiled, ranks compute together, or the call changed its inputs, or what the model
holds.
"""

from __future__ import annotations

import contextlib
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..core import containment as guard
from . import Hand
from ._codec import PLAIN
from ._structures import equal, leaves, near
from ._untouched import State

PROVE = 3
"""so many calls of each kind are computed both ways"""
DEPTH, MOST = 6, 400_000
"""how deep objects are looked into for what a call changes, and how much is looked at"""
OPAQUE = (type, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType)
Ask = Callable[[], Any]


class Listener:
    """Of evaluations that are left as they are."""

    def __init__(self, hand: Hand, knobs: Sequence[str], learned: Callable[[], None]) -> None:
        self.hand, self.knobs, self.learned = hand, knobs, learned
        self.exact = "evaluation.gradients" in knobs
        """bit by bit; the others round"""
        self.proven: Counter[Any] = Counter()
        self.inside = False

    def call(self, line: Any, ask: Ask, model: Any, given: Any) -> Any:
        """What a call of the model gives, in an evaluation that began at that line."""
        if self.inside:
            return ask()
        self.inside = True
        try:
            before = self.hand.contained(self.knobs, self._before, line, model, given)
            found = ask()
            self.hand.contained(self.knobs, self._after, before, found, ask, model, given)
        finally:
            self.inside = False
        return found

    def _before(self, line: Any, model: Any, given: Any) -> tuple[State, Any] | None:
        """What must not change; None where the call is not made twice."""
        import torch

        if not (self.knobs and torch.is_grad_enabled()) or self.proven[line] >= PROVE:
            return None
        self.proven[line] += 1
        if _seen_by_others(model):
            return None
        held = _held(model, given)
        if held is None:
            self.hand.decline(self.knobs, "the model holds too much to see what a call changes")
        return None if held is None else (State(model), held)

    def _after(
        self, before: tuple[State, Any] | None, found: Any, ask: Ask, model: Any, given: Any
    ) -> None:
        for tensor in graphs(found):
            tensor.grad_fn.register_prehook(lambda _: self.learned())
        if before is None or not list(graphs(found)):
            return
        state, held = before
        now = State(model)
        if _same(held, _held(model, given)):
            try:
                self._compare(found, ask, state)
            finally:
                now.put_back()

    def _compare(self, found: Any, ask: Ask, state: State) -> None:
        import torch

        state.put_back()
        try:
            with without_graph():
                other = ask()
        except getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError):
            return  # two at once are too many, which says nothing of one
        except (RuntimeError, ValueError, TypeError, LookupError, AssertionError) as error:
            if guard.handling(error) is not None:
                raise
            self.hand.decline(self.knobs, f"the model refuses to compute without them: {error}")
        else:
            if alike(found, other, _equal if self.exact else near):
                return
            state.put_back()
            again = alike(found, ask(), _equal)  # with a graph: sums in any order never are
            if again or not alike(found, other, near):
                self.hand.decline(self.knobs, "without them the model gives other numbers")


@contextlib.contextmanager
def without_graph() -> Iterator[None]:
    """As it was but for the graph: PyTorch's attention has a faster way without one, which rounds
    otherwise, and gives zeros where a mask says padding."""
    import torch

    switch = _switch()
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


def attends_fast(model: Any) -> bool:
    """Whether it goes that way although a graph is recorded, as frozen attention does, or cannot be
    kept from it."""
    import torch

    frozen = [
        not any(p.requires_grad for p in one.parameters())
        for one in model.modules()
        if isinstance(one, torch.nn.MultiheadAttention)
    ]
    return any(frozen) or (bool(frozen) and _switch() is None)


def _switch() -> Any:
    import torch

    return getattr(torch.backends, "mha", None)


def graphs(found: Any) -> Iterator[Any]:
    """The tensors of a result that know how they came about."""
    for one in _every(found):
        if getattr(one, "grad_fn", None) is not None:
            yield one


def _every(found: Any) -> Iterator[Any]:
    """What a result holds: also where it is an object of the script's, as a dataclass."""
    for _, one in leaves(found):
        yield one
        if type(one).__module__.partition(".")[0] not in ("builtins", "torch"):
            yield from (inner for _, inner in leaves(getattr(one, "__dict__", {})))


def alike(found: Any, other: Any, same: Callable[[Any, Any], bool]) -> bool:
    """Whether two results hold the same tensors and plain values."""
    import torch

    one, two = list(_every(found)), list(_every(other))
    if list(map(type, one)) != list(map(type, two)):
        return False
    return all(
        same(a, b) if isinstance(a, torch.Tensor) else type(a) not in PLAIN or repr(a) == repr(b)
        for a, b in zip(one, two, strict=True)
    )


def _equal(one: Any, other: Any) -> bool:
    """Bit by bit, with numbers that are none."""
    import torch

    if not one.is_floating_point():
        return equal(one, other)
    alike = one.shape == other.shape and one.dtype == other.dtype
    return alike and torch.allclose(one, other, rtol=0.0, atol=0.0, equal_nan=True)


def _seen_by_others(model: Any) -> bool:
    """Whether a call is counted or noted by somebody (PyTorch's own hooks only make weights), or
    may write its result where the last one is, as what is compiled for graphs of a device."""
    import torch
    from torch.nn.modules import module

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return True
    hooks = [*module._global_forward_hooks.values(), *module._global_forward_pre_hooks.values()]
    for one in model.modules():
        if hasattr(one, "_orig_mod") or getattr(one, "_compiled_call_impl", None) is not None:
            return True
        hooks += [*one._forward_hooks.values(), *one._forward_pre_hooks.values()]
    homes = [getattr(hook, "__module__", None) or "" for hook in hooks]
    return not all(home.startswith("torch.nn.utils.") for home in homes)


def _held(model: Any, given: Any) -> list[Any] | None:
    """What the inputs and the model's modules hold, and how often tensors of it were changed: a
    cache of keys is an object of the script's. None where that is more than is looked at."""
    found: list[Any] = []
    seen: dict[int, int] = {}
    for root in ([given], *([*vars(each), *vars(each).values()] for each in model.modules())):
        waiting = [(one, 0) for one in root]
        while waiting:
            one, depth = waiting.pop()
            found += [one, *_changes(one)]
            if len(found) > MOST:
                return None
            if depth < seen.get(id(one), DEPTH):
                seen[id(one)] = depth
                waiting += [(inner, depth + 1) for inner in _within(one)]
    return found


def _changes(one: Any) -> list[int]:
    import torch

    known = isinstance(one, torch.Tensor) and not one.is_inference()
    return [one._version] if known else []


def _within(one: Any) -> list[Any]:
    import torch

    if isinstance(one, Mapping):
        return [*one, *one.values(), *_attributes(one)]
    if isinstance(one, (list, tuple, set, frozenset)):
        return [*one, *_attributes(one)]
    # modules are looked at one by one
    return [] if isinstance(one, (torch.Tensor, torch.nn.Module, *OPAQUE)) else _attributes(one)


def _attributes(one: Any) -> list[Any]:
    return list(getattr(one, "__dict__", {}).values())


def _same(one: Sequence[Any], other: Sequence[Any] | None) -> bool:
    return (
        other is not None
        and len(one) == len(other)
        and all(
            a is b or (type(a) in PLAIN and type(a) is type(b) and a == b)
            for a, b in zip(one, other, strict=True)
        )
    )
