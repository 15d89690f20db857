"""Proof that a model makes the same of a batch with and without the padding at its end.

It is called twice in evaluation mode, without gradients, with random numbers put back, and what it
gives for the positions that are kept must be the same but for rounding. So a model that pools over
padding, or reads sequences from behind, is found out, however it uses masks. Nothing of it may
change by being called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ._trimming import Cut, UnfitError, shortened

NEAR = {"float32": 1e-4, "float64": 1e-4}
LESS_NEAR = 2e-2
"""relative to the largest number: what rounding brings in full, and in half precision"""
REFUSALS = (RuntimeError, ValueError, TypeError, LookupError, AssertionError)
PLAIN = (bool, int, float, str, type(None))


def told_apart(model: Any, call: Callable[..., Any], args: Any, kwargs: Any, cut: Cut) -> bool:
    """Whether the loss, too, is known to be the same: a single number is among what the model
    gives, or nothing of it is as long as the sequences.

    Raises:
        UnfitError: it is not the same, or cannot be called for the proof.
    """
    import torch

    _fit(model)
    less = shortened(args, cut), shortened(kwargs, cut)
    if not _shorter(args, less[0]) and not _shorter(kwargs, less[1]):
        raise UnfitError("the model is not given the sequences of its batches as they are")
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        call = model.module  # what is around it would talk to other ranks
    try:
        with _evaluated(model), torch.no_grad():
            whole, part = call(*args, **kwargs), call(*less[0], **less[1])
    except REFUSALS as error:
        raise UnfitError(f"the model refuses a batch without its padding: {error}") from error
    finally:
        torch.clear_autocast_cache()  # it would give weights without gradients
    pairs = list(_pairs(whole, part))
    if not pairs or not all(_near(one, other) for one, other in pairs):
        raise UnfitError("the model makes something else of a batch without its padding")
    one_number = any(not one.dim() for one, _ in pairs)
    return one_number or all(one.shape == other.shape for one, other in pairs)


def _fit(model: Any) -> None:
    import torch

    for part in model.modules():
        kind = type(part)
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            raise UnfitError("the model normalises over batches, padding included")
        if kind.__module__.startswith("torch.distributed."):
            raise UnfitError(f"{kind.__name__} cannot be called by one rank alone")
        if hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) is not None:
            raise UnfitError("the model is compiled, and every length would be compiled anew")
    if torch.backends.cudnn.benchmark and torch.cuda.is_available():
        raise UnfitError("cuDNN searches its algorithms anew for every length")


@contextmanager
def _evaluated(model: Any) -> Iterator[None]:
    """In evaluation mode, and as it was afterwards.

    Raises:
        UnfitError: it has changed by being called.
    """
    import torch

    devices = {p.device for p in model.parameters() if p.device.type == "cuda"}
    modes = [(part, part.training) for part in model.modules()]
    before, versions = _attributes(model), _versions(model)
    try:
        with torch.random.fork_rng(devices=[device.index for device in devices]):
            for part, _ in modes:
                part.training = False
            yield
    finally:
        for part, mode in modes:
            part.training = mode
    if _attributes(model) != before or _versions(model) != versions:
        for part, held in before:
            vars(part).update(held)
        raise UnfitError("the model changes by being called")


def _attributes(model: Any) -> list[tuple[Any, dict[str, Any]]]:
    """Numbers and texts that its parts hold."""
    return [
        (part, {name: one for name, one in vars(part).items() if isinstance(one, PLAIN)})
        for part in model.modules()
    ]


def _versions(model: Any) -> list[int]:
    return [one._version for some in (model.parameters(), model.buffers()) for one in some]


def _shorter(one: Any, other: Any) -> bool:
    """Whether any tensor was shortened."""
    return any(a.shape != b.shape for a, b in _pairs(one, other))


def _pairs(one: Any, other: Any) -> Iterator[tuple[Any, Any]]:
    """Tensors at the same places of two structures."""
    import torch

    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        yield one, other
    elif isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in one:
            yield from _pairs(one[name], other.get(name))
    elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        for a, b in zip(one, other, strict=False):
            yield from _pairs(a, b)
    elif type(one) is not type(other):
        raise UnfitError("the model gives something else for a batch without its padding")


def _near(one: Any, other: Any) -> bool:
    """Whether they are the same but for rounding, as far as the shorter one goes."""
    for side, (size, less) in enumerate(zip(one.shape, other.shape, strict=False)):
        if size > less:
            one = one.narrow(side, 0, less)
    if one.shape != other.shape:
        return False
    if not one.dtype.is_floating_point:
        return bool((one == other).all())
    room = NEAR.get(str(one.dtype).partition(".")[2], LESS_NEAR)
    one, other = one.float(), other.float()
    finite = one.isfinite() & other.isfinite()
    if not bool((one.isfinite() == other.isfinite()).all()) or not bool(finite.any()):
        return False
    apart = (one - other)[finite].abs().max()
    return bool(apart <= room * one[finite].abs().max().clamp_min(1e-6))
