"""Padding at the end of every sequence of a batch: how much there is, and the batch without it.

Only a mask says so for sure: in each row ones, then zeros. All else that is as long as the mask
must end in one and the same value there. What is left is as long as the longest row, rounded up to
a multiple of 8, as matrix units want it.
"""

from __future__ import annotations

import collections
import copy
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

MULTIPLE = 8
MASK = re.compile(r"(^|_)mask$", re.I)
TARGET = re.compile(r"label|target", re.I)


class UnfitError(Exception):
    """Batches of this kind are not trimmed at all; the message says why."""


class Cut(NamedTuple):
    """A batch of ``rows`` sequences, each ``length`` long, of which ``keep`` are needed; whether it
    holds targets that are to be left out (negative) beyond that."""

    rows: int
    length: int
    keep: int
    ignored: bool


def cut_of(data: Any) -> Cut | None:
    """What can be cut off a batch; None where nothing can be, or not for sure.

    Raises:
        UnfitError: it is no dict of tensors, or holds some that are laid out otherwise.
    """
    if type(data) not in (dict, collections.OrderedDict) and not isinstance(
        data, collections.UserDict
    ):
        raise UnfitError(f"its batches are no dicts: {type(data).__module__}.{type(data).__name__}")
    masks = [one for name, one in data.items() if MASK.search(str(name)) and _is_mask(one)]
    if not masks:
        return None
    mask = masks[0]
    rows, length = mask.shape
    keep = _needed(mask)
    if keep >= length or rows == length:
        return None
    ignored = [_ends(str(name), one, rows, length, keep) for name, one in data.items()]
    return None if None in ignored else Cut(rows, length, keep, True in ignored)


def given(cut: Cut, args: Any, kwargs: Mapping[str, Any]) -> Cut | None:
    """The cut of the batch that a model is called with, told by its own mask: the last batch that a
    loader gave may be the one after it (accelerate's are one ahead). None where nothing can be cut
    off; as it is where the model gets no mask."""
    import torch

    named = [one for name, one in kwargs.items() if MASK.search(name)]
    held = [one for one in (*args, *named) if isinstance(one, torch.Tensor)]
    masks = [one for one in held if one.shape == (cut.rows, cut.length) and _is_mask(one)]
    if not masks:
        return None if named else cut
    keep = max(map(_needed, masks))
    return cut._replace(keep=keep) if keep < cut.length else None


def _needed(mask: Any) -> int:
    """How long its longest row is, rounded up."""
    return -(-int(mask.sum(1).max()) // MULTIPLE) * MULTIPLE


def _is_mask(one: Any) -> bool:
    """Whether each row is ones, then zeros."""
    import torch

    if type(one) is not torch.Tensor or one.dim() != 2 or one.dtype.is_floating_point:
        return False
    real = one.int()
    falls = real[:, 1:] <= real[:, :-1]
    return bool(((real == 0) | (real == 1)).all() and real[:, 0].all() and falls.all())


def _ends(name: str, one: Any, rows: int, length: int, keep: int) -> bool | None:
    """Whether it holds targets that are left out there; None where what would be cut off is not the
    same everywhere."""
    import torch

    if not isinstance(one, torch.Tensor):
        if isinstance(one, Mapping) or _tensors_in(one):
            raise UnfitError(f"{name!r} in its batches is no tensor, but holds some")
        return False
    if length not in one.shape[1:]:
        return False
    if one.shape[:2] != (rows, length) or length in one.shape[2:]:
        raise UnfitError(f"{name!r} in its batches is laid out otherwise: {tuple(one.shape)}")
    rest = one[:, keep:]
    if not bool((rest == rest[0, 0]).all()):
        return None
    if not TARGET.search(name):
        return False
    if one.dtype.is_floating_point or int(rest.max()) >= 0:
        raise UnfitError(f"{name!r} in its batches does not say that padding is no target")
    return True


def _tensors_in(one: Any) -> bool:
    import torch

    return isinstance(one, (list, tuple)) and any(isinstance(x, torch.Tensor) for x in one[:64])


def trimmed(data: Any, cut: Cut) -> Any:
    """The batch without what can be cut off."""
    made = copy.copy(data)
    for name, one in data.items():
        made[name] = shortened(one, cut)
    return made


def shortened(value: Any, cut: Cut) -> Any:
    """A tensor of sequences without what can be cut off; what is none as it is; lists, tuples and
    dicts of them."""
    import torch

    if isinstance(value, torch.Tensor):
        whole = value.dim() > 1 and value.shape[:2] == (cut.rows, cut.length)
        return value[:, : cut.keep].contiguous() if whole else value
    if type(value) in (list, tuple):
        return type(value)(shortened(one, cut) for one in value)
    if type(value) is dict:
        return {name: shortened(one, cut) for name, one in value.items()}
    return value
