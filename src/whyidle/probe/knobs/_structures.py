"""Tensors inside of what loaders give, models are given, and results are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import DeclinedError

DEPTH = 4
Path = tuple[Any, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """What lists, tuples and mappings hold, each with its place."""
    if len(path) <= DEPTH and isinstance(value, (list, tuple)):
        for number, one in enumerate(value):
            yield from leaves(one, (*path, number))
    elif len(path) <= DEPTH and isinstance(value, Mapping):
        for name in value:
            yield from leaves(value[name], (*path, name))
    else:
        yield path, value


def parts(given: Any) -> tuple[dict[Path, Any], list[tuple[Path, Any]]]:
    """Tensors among a call's inputs, and the rest."""
    import torch

    every = list(leaves(given))
    tensors = {path: one for path, one in every if isinstance(one, torch.Tensor)}
    return tensors, [(path, one) for path, one in every if path not in tensors]


def moves(tensors: Mapping[Path, Any], batch: Any) -> dict[Path, tuple[Any, Path]]:
    """Of which part of the batch each input is a copy; nothing where one is of none."""
    import torch

    held = [(path, one) for path, one in leaves(batch) if isinstance(one, torch.Tensor)]
    found = {}
    for place, tensor in tensors.items():
        for path, leaf in held:
            if leaf.shape == tensor.shape and equal(leaf.to(tensor.device, tensor.dtype), tensor):
                found[place] = (tensor, path)
                break
        else:
            return {}
    return found


def sizes_of(moves: Mapping[Path, tuple[Any, Path]], batches: Sequence[Any]) -> list[int] | None:
    """How many samples each batch has; None where their parts cannot be put together."""
    sizes = []
    for batch in batches:
        own = set()
        for tensor, path in moves.values():
            part = at(batch, path)
            if part is None or not part.ndim or part.shape[1:] != tensor.shape[1:]:
                return None
            own.add(part.shape[0])
        if len(own) != 1:
            return None
        sizes.append(own.pop())
    return sizes


def at(value: Any, path: Path) -> Any:
    """The tensor at that place; None where there is none."""
    import torch

    try:
        for key in path:
            value = value[key]
    except (LookupError, TypeError):
        return None
    return value if isinstance(value, torch.Tensor) else None


def rebuilt(value: Any, joined: Mapping[Path, Any], path: Path = ()) -> Any:
    """The same inputs with other tensors."""
    if path in joined:
        return joined[path]
    if type(value) in (list, tuple):
        made = [rebuilt(one, joined, (*path, number)) for number, one in enumerate(value)]
        return made if type(value) is list else tuple(made)
    if type(value) is dict:
        return {name: rebuilt(one, joined, (*path, name)) for name, one in value.items()}
    if any(place[: len(path)] == path for place in joined):
        raise DeclinedError(f"the model is given a {type(value).__name__}")
    return value


def split(whole: Any, sizes: Sequence[int], number: int) -> Any:
    """One batch's part of the results.

    Raises:
        DeclinedError: they are not one for each sample.
    """
    import torch

    if isinstance(whole, torch.Tensor) and whole.ndim and whole.shape[0] == sum(sizes):
        begin = sum(sizes[:number])
        return whole[begin : begin + sizes[number]].clone()
    if type(whole) in (list, tuple):
        return type(whole)(split(one, sizes, number) for one in whole)
    if type(whole) is dict:
        return {name: split(one, sizes, number) for name, one in whole.items()}
    if whole is None:
        return None
    raise DeclinedError("its results are not one for each sample")


def near(one: Any, other: Any) -> bool:
    """Whether results are the same but for rounding: to half the digits of their type."""
    import torch

    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if not one.is_floating_point() or not one.numel():
            return bool(torch.equal(one, other))
        room = torch.finfo(one.dtype).eps ** 0.5 * one.abs().max()
        return bool((one - other).abs().max() <= room)
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(near(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(near, one, other))
    return bool(one is other)


def equal(one: Any, other: Any) -> bool:
    """Whether two tensors are alike, value by value."""
    import torch

    alike = one.shape == other.shape and one.dtype == other.dtype and one.device == other.device
    return alike and (one is other or bool(torch.equal(one, other)))
