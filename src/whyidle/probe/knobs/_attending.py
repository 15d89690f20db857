"""In the place of attention that is written out: it is put off, and then done by one kernel.

Each method does what it stands for, with tensors, bit by bit. A product of queries and keys that
are trained is put off: what comes next is noted, until the product with the values says that one
kernel can do all of it (``scaled_dot_product_attention``), or it cannot, and all is done as it was
noted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import guard

HIDDEN = -1e4
"""what is filled in where nobody may look, at most; anything larger might be a weight"""
Step = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Scores:
    """A product that is put off, and what is to be done with it."""

    __slots__ = ("dropout", "key", "mask", "query", "scale", "stage", "steps", "whole")

    def __init__(self, query: Any, key: Any) -> None:
        self.query, self.key = query, key
        self.scale, self.dropout = 1.0, 0.0
        self.mask: Any = None
        """added to the scores, or True where a query may look"""
        self.stage = "scores"
        """``weights`` behind the softmax"""
        self.steps: list[Step] = []
        self.whole = True
        """whether one kernel can do it so far"""

    def then(self, does: Callable[..., Any], *args: Any, **named: Any) -> Scores:
        self.steps.append((does, args, named))
        return self

    def tensor(self) -> Any:
        """All of it, as it was written."""
        found = self.query @ self.key
        for does, args, named in self.steps:
            found = does(found, *args, **named)
        return found


class Attending:
    """What a script calls in the place of its own operators. ``took`` is called each time that one
    kernel has done it, ``failed`` once where it could not."""

    def __init__(self, took: Callable[[], None], failed: Callable[[BaseException], None]) -> None:
        import torch

        self.torch = torch
        self.took, self.failed = took, failed
        self.compiling = guard.compiling()
        self.off = False
        self.why = ""
        """why it was not done by one kernel, the last time"""
        self.triangles: dict[int, Any] = {}

    def product(self, left: Any, right: Any) -> Any:
        if self.compiling() or self.off or not self._fits(left, right):
            return left @ right
        return Scores(left, right)

    def _fits(self, left: Any, right: Any) -> bool:
        torch = self.torch
        if not (type(left) is type(right) is torch.Tensor and torch.is_grad_enabled()):
            return False
        if left.dim() not in (3, 4) or left.dim() != right.dim() or not left.requires_grad:
            return False
        alike = left.dtype == right.dtype and left.shape[:-2] == right.shape[:-2]
        return alike and left.is_floating_point() and left.shape[-1] == right.shape[-2]

    def scaled(self, scores: Any, by: Any) -> Any:
        if type(scores) is not Scores:
            return scores * by
        plain = type(by) in (int, float) and scores.stage == "scores" and scores.mask is None
        scores.whole &= plain
        scores.scale *= by if plain else 1.0
        return scores.then(lambda found: found * by)

    def divided(self, scores: Any, by: Any) -> Any:
        if type(scores) is not Scores:
            return scores / by
        plain = type(by) in (int, float) and by and scores.stage == "scores"
        scores.whole &= bool(plain) and scores.mask is None
        scores.scale /= by if plain else 1.0
        return scores.then(lambda found: found / by)

    def added(self, scores: Any, mask: Any) -> Any:
        if type(scores) is not Scores:
            return scores + mask
        fits = scores.stage == "scores" and scores.mask is None and self._adds(scores, mask)
        scores.whole &= fits
        scores.mask = mask if fits else scores.mask
        return scores.then(lambda found: found + mask)

    def _adds(self, scores: Scores, mask: Any) -> bool:
        if type(mask) is not self.torch.Tensor or mask.requires_grad:
            return False
        return bool(mask.dtype == scores.query.dtype and mask.dim() <= scores.query.dim())

    def masked(self, scores: Any, mask: Any, value: Any) -> Any:
        if type(scores) is not Scores:
            return scores.masked_fill(mask, value)
        fits = type(mask) is self.torch.Tensor and mask.dtype == self.torch.bool
        fits = fits and type(value) in (int, float) and value <= HIDDEN
        fits = fits and scores.stage == "scores" and scores.mask is None
        scores.whole &= fits and mask.dim() <= scores.query.dim()
        if scores.whole and value == -math.inf:
            scores.mask = ~mask
        elif scores.whole:
            zeros = mask.new_zeros(mask.shape, dtype=scores.query.dtype)
            scores.mask = zeros.masked_fill(mask, value)
        return scores.then(lambda found: found.masked_fill(mask, value))

    def softmax(self, scores: Any, *args: Any, **named: Any) -> Any:
        if type(scores) is not Scores:
            return self.torch.softmax(scores, *args, **named)
        dim = args[0] if len(args) == 1 else named.get("dim")
        last = dim in (-1, scores.query.dim() - 1) and not set(named) - {"dim", "dtype"}
        scores.whole &= last and scores.stage == "scores" and len(args) <= 1
        scores.whole &= named.get("dtype") in (None, self.torch.float32, scores.query.dtype)
        scores.stage = "weights"
        return scores.then(self.torch.softmax, *args, **named)

    def dropout(self, scores: Any, *args: Any, **named: Any) -> Any:
        drops = self.torch.nn.functional.dropout
        if type(scores) is not Scores:
            return drops(scores, *args, **named)
        given = dict(zip(("p", "training", "inplace"), args, strict=False)) | named
        training = given.get("training", True)
        return self._dropped(scores, given.get("p", 0.5) if training else 0.0).then(
            drops, *args, **named
        )

    def _dropped(self, scores: Scores, share: float) -> Scores:
        scores.whole &= scores.stage == "weights" and not scores.dropout
        scores.dropout = share
        return scores

    def applied(self, scores: Any, module: Any) -> Any:
        if type(scores) is not Scores:
            return module(scores)
        nn = self.torch.nn
        plain = isinstance(module, nn.Module) and not (module._forward_hooks or _before(module))
        if plain and type(module) is nn.Dropout:
            self._dropped(scores, module.p if module.training else 0.0)
        elif plain and type(module) is nn.Softmax:
            last = module.dim in (-1, scores.query.dim() - 1)
            scores.whole &= last and scores.stage == "scores"
            scores.stage = "weights"
        elif not plain or type(module) is not nn.Identity:
            self.why = "what it does with the weights is its own"
            return module(scores.tensor())
        return scores.then(module)

    def cast(self, scores: Any, how: str, *args: Any, **named: Any) -> Any:
        if type(scores) is not Scores:
            return getattr(scores, how)(*args, **named)
        to = args[0] if how == "to" and len(args) == 1 else None
        wider = how != "to" or to in (self.torch.float32, scores.query.dtype)
        scores.whole &= wider and not named
        return scores.then(lambda found: getattr(found, how)(*args, **named))

    def attended(self, scores: Any, value: Any) -> Any:
        if type(scores) is not Scores:
            return scores @ value
        found = self._fused(scores, value)
        return scores.tensor() @ value if found is None else found

    def _fused(self, scores: Scores, value: Any) -> Any:
        """What one kernel gives; None where it cannot, or nothing is gained."""
        self.why = self._against(scores, value)
        if self.why or self.off:
            return None
        query = scores.query
        try:
            found = self._asked(scores, query, scores.key.transpose(-2, -1), value)
        except (RuntimeError, TypeError, NotImplementedError) as error:
            self.off = True
            self.failed(error)
            return None
        self.took()
        return found

    def _against(self, scores: Scores, value: Any) -> str:
        torch, query = self.torch, scores.query
        if not scores.whole or scores.stage != "weights":
            return "no kernel scales, masks or casts the weights as it does"
        fits = type(value) is torch.Tensor and value.shape[:-2] == query.shape[:-2]
        if not fits or value.dtype != query.dtype:
            return "its queries and values are of different kinds"
        if scores.dropout and query.device.type == "cpu":
            return "with dropout it is written out by PyTorch, too, on a CPU"
        if torch.are_deterministic_algorithms_enabled():
            return "the kernel is not deterministic, which the job asks for"
        return ""

    def _asked(self, scores: Scores, query: Any, key: Any, value: Any) -> Any:
        mask, flat = scores.mask, query.dim() == 3
        if mask is not None:
            mask = mask[(None,) * (query.dim() - mask.dim())]
        given = (query, key, value)
        if flat:  # the kernels want heads
            given = tuple(one.unsqueeze(1) for one in given)
            mask = None if mask is None else mask.unsqueeze(1)
        causal = mask is not None and self._causal(mask, query.shape[-2], key.shape[-2])
        found = self.torch.nn.functional.scaled_dot_product_attention(
            *given,
            attn_mask=None if causal else mask,
            dropout_p=scores.dropout,
            is_causal=causal,
            scale=scores.scale,
        )
        return found.squeeze(1) if flat else found

    def _causal(self, mask: Any, rows: int, columns: int) -> bool:
        """Whether each may look at those before it: only asked where that waits for no device."""
        if mask.device.type != "cpu" or mask.dtype != self.torch.bool or rows != columns:
            return False
        if mask.numel() != rows * columns:
            return False
        if rows not in self.triangles:
            ones = self.torch.ones(rows, columns, dtype=self.torch.bool)
            self.triangles = {rows: ones.tril()}
        return bool(self.torch.equal(mask.reshape(rows, columns), self.triangles[rows]))


def _before(module: Any) -> bool:
    return bool(module._forward_pre_hooks)
