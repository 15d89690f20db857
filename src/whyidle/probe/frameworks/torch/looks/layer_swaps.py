"""Switches of a whole model, to be timed for a few passes that are computed again.

A swap is made and undone in one ``with``; the model's own modules and parameters are the same
objects before and after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

from ..fused_attention import AttentionFuser


class Swap(NamedTuple):
    """One change: ``kind`` names it, ``keeps`` says whether results are the same apart from
    rounding. ``apply`` makes the change while it is open. ``plain`` is open in
    the passes without it, where the change costs something by itself. ``is_used`` tells after a
    pass whether it changed anything."""

    kind: str
    keeps: bool
    apply: Callable[[], AbstractContextManager[None]]
    plain: Callable[[], AbstractContextManager[None]] = nullcontext
    is_used: Callable[[], bool] = lambda: True


def find_swaps(torch: Any, modules: list[Any], device: Any, *, narrow: bool = False) -> list[Swap]:
    """List the swaps of a model. ``narrow``: it computes under autocast already."""
    swaps = []
    convolutions = [m for m in modules if isinstance(m, torch.nn.Conv2d)]
    if convolutions and any(not _is_channels_last(torch, m.weight) for m in convolutions):
        apply_change = lambda: _channels_last(torch, modules)  # noqa: E731
        swaps.append(Swap("channels_last", True, apply_change))
    if not narrow:
        apply_change = lambda: torch.autocast(device.type, dtype=torch.bfloat16)  # noqa: E731
        swaps.append(Swap("bfloat16", False, apply_change))
    swaps.append(_fused_attention(torch))
    return swaps


def _fused_attention(torch: Any) -> Swap:
    from torch.overrides import BaseTorchFunctionMode

    fuser, idle = AttentionFuser(torch), BaseTorchFunctionMode()
    return Swap("attention", True, fuser.fuse, lambda: idle, lambda: fuser.used > 0)


def _is_channels_last(torch: Any, weight: Any) -> bool:
    return bool(weight.is_contiguous(memory_format=torch.channels_last))


@contextmanager
def _channels_last(torch: Any, modules: list[Any]) -> Iterator[None]:
    weights = [p for m in modules for p in m.parameters(recurse=False) if p.dim() == 4]
    before = [(weight, weight.data) for weight in weights]
    for weight in weights:
        weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    try:
        yield
    finally:
        for weight, data in before:
            weight.data = data
