"""Computes hand-written attention by PyTorch's fused function while a context is open, so that both
can be timed in the same model.

The scores (queries times keys) are not computed but remembered, and so is what is done to them: a
factor, a mask, softmax, dropout. Their product with the values is
``scaled_dot_product_attention``. As soon as anything else is done to them they are computed as
written. ``nn.MultiheadAttention`` is called without the weights that it returns, which keep it from
the fused function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from .looks.step_tape import find_tensors, map_tensors

PRODUCTS = ("matmul", "__matmul__", "bmm")
METADATA = ("__get__", "size", "dim", "numel", "is_floating_point")
"""functions that need no values"""


class Scores(NamedTuple):
    """Scores that were not computed. ``keys`` are transposed, as they were multiplied."""

    queries: Any
    keys: Any
    factor: float = 1.0
    mask: Any = None
    """added, or, of truth values, where scores count"""
    normal: bool = False
    """whether softmax was taken"""
    dropped: float = 0.0


class AttentionFuser:
    """The scores that were not computed, by the tensors without values that stand for them;
    ``used`` counts fused calls."""

    def __init__(self, torch: Any) -> None:
        self.torch, self.used = torch, 0
        self.deferred: dict[int, tuple[Any, Scores]] = {}
        self.causal: dict[Any, bool] = {}
        self.steps: dict[str, Callable[..., Scores | None]] = {
            **dict.fromkeys(("mul", "__mul__", "__rmul__"), self._multiply),
            **dict.fromkeys(("div", "__truediv__"), self._divide),
            **dict.fromkeys(("masked_fill", "masked_fill_"), self._fill),
            **dict.fromkeys(("add", "__add__"), self._add),
            **dict.fromkeys(("type", "to"), self._cast),
            "softmax": self._normalise,
            "dropout": self._drop,
        }

    @contextmanager
    def fuse(self) -> Iterator[None]:
        """A context in which attention is fused."""
        from torch.overrides import TorchFunctionMode

        fuser = self

        class Mode(TorchFunctionMode):
            def __torch_function__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                return fuser.call(func, args, kwargs or {})

        try:
            with Mode():
                yield
        finally:
            self.deferred.clear()

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call a function of PyTorch, or go on with scores instead."""
        name = getattr(func, "__name__", "")
        if name == "multi_head_attention_forward" and kwargs.get("need_weights"):
            self.used += 1
            return func(*args, **kwargs | {"need_weights": False})
        known = self.deferred.get(id(args[0])) if self.deferred and args else None
        if known is not None and name in METADATA:
            return func(*args, **kwargs)
        if known is not None and name in PRODUCTS and known[1].normal:
            return self._fuse(known[1], args[1])
        if known is not None and name in self.steps:
            scores = self.steps[name](known[1], *args[1:], **kwargs)
            if scores is not None:
                return self._defer(scores)
        if any(id(tensor) in self.deferred for tensor in find_tensors((args, kwargs))):
            args, kwargs = map_tensors((args, kwargs), self._compute)
        if name in PRODUCTS and len(args) == 2 and _are_scores(*args):
            return self._defer(Scores(*args))
        return func(*args, **kwargs)

    def _defer(self, scores: Scores) -> Any:
        shape = (*scores.queries.shape[:-1], scores.keys.shape[-1])
        tensor = scores.queries.new_empty(()).expand(shape)
        self.deferred[id(tensor)] = tensor, scores
        return tensor

    # -- what may be done to scores: None where the fused function does it otherwise ---------------

    def _multiply(self, scores: Scores, other: Any) -> Scores | None:
        plain = isinstance(other, (int, float)) and scores.mask is None and not scores.normal
        return scores._replace(factor=scores.factor * other) if plain else None

    def _divide(self, scores: Scores, other: Any) -> Scores | None:
        return self._multiply(scores, 1.0 / other if isinstance(other, (int, float)) else other)

    def _fill(self, scores: Scores, mask: Any, value: Any) -> Scores | None:
        plain = scores.mask is None and not scores.normal and value < -1e3
        return scores._replace(mask=~mask) if plain else None

    def _add(self, scores: Scores, other: Any) -> Scores | None:
        plain = scores.mask is None and not scores.normal and getattr(other, "ndim", 0) > 1
        return scores._replace(mask=other) if plain else None

    def _normalise(self, scores: Scores, dim: Any = None, *_: Any, **others: Any) -> Scores | None:
        last = dim in (-1, scores.queries.dim() - 1)
        same = others.get("dtype") in (None, scores.queries.dtype)
        return scores._replace(normal=True) if last and same and not scores.normal else None

    def _cast(self, scores: Scores, dtype: Any = None, *_: Any, **others: Any) -> Scores | None:
        return scores if dtype is scores.queries.dtype and not others else None

    def _drop(
        self, scores: Scores, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Scores | None:
        return scores._replace(dropped=p if training else 0.0) if scores.normal else None

    def _fuse(self, scores: Scores, values: Any) -> Any:
        self.used += 1
        mask, length = scores.mask, scores.keys.shape[-1]
        causal = mask is not None and self._is_causal(mask, length)
        return self.torch.nn.functional.scaled_dot_product_attention(
            scores.queries, scores.keys.transpose(-2, -1), values,
            None if causal else mask, scores.dropped, is_causal=causal, scale=scores.factor,
        )  # fmt: skip

    def _is_causal(self, mask: Any, length: int) -> bool:
        """Whether a mask forbids just what comes later, looked at once for each shape."""
        shape, torch = tuple(mask.shape), self.torch
        if shape not in self.causal:
            full = torch.ones(length, length, dtype=torch.bool, device=mask.device).tril()
            square = mask.dtype is torch.bool and mask.numel() == length**2
            self.causal[shape] = square and torch.equal(mask.reshape(length, length), full)
        return self.causal[shape]

    def _compute(self, tensor: Any) -> Any:
        """Scores as they were written; any other tensor is returned as it is."""
        if id(tensor) not in self.deferred:
            return tensor
        scores, functional = self.deferred[id(tensor)][1], self.torch.nn.functional
        found, mask = scores.queries @ scores.keys * scores.factor, scores.mask
        if mask is not None:
            whole = mask.dtype is self.torch.bool
            found = found.masked_fill(~mask, float("-inf")) if whole else found + mask
        found = found.softmax(-1) if scores.normal else found
        return functional.dropout(found, scores.dropped) if scores.dropped else found


def _are_scores(queries: Any, keys: Any) -> bool:
    """Whether a product may be one of queries with transposed keys, of several heads."""
    if min(queries.dim(), keys.dim()) < 3 or queries.shape[:-2] != keys.shape[:-2]:
        return False
    return bool(keys.stride(-2) == 1 and keys.shape[-1] > 1)
