"""``save_file`` of safetensors, beside the training as ``torch.save``: a flat dict of tensors.

It refuses some of them, and says so at once. Those it is left to: a writer could only tell later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import Hand

MODULE, NAME = "safetensors.torch", "save_file"
Maker = Callable[[Callable[..., Any]], Callable[..., Any]]


def adopt(hand: Hand, wrap: Maker, module: Any) -> None:
    """Put what writes beside the training in its place."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        beside = wrap(original)

        def save_file(tensors: Any, filename: Any, metadata: Any = None, **more: Any) -> Any:
            plain = not more and hand.contained((), _accepted, tensors, metadata)
            save = beside if plain else original
            return save(tensors, filename, metadata=metadata, **more)

        return save_file

    hand.replace(module, NAME, make)


def _accepted(tensors: Any, metadata: Any) -> bool:
    """Whether it surely can be written: dense tensors that share no memory, and text."""
    import torch

    if type(tensors) is not dict or not _texts(metadata):
        return False
    homes = set()
    for name, one in tensors.items():
        if type(name) is not str or type(one) not in (torch.Tensor, torch.nn.Parameter):
            return False
        if one.layout != torch.strided or not one.is_contiguous() or one.is_complex():
            return False
        if one.is_quantized or one.device.type == "meta":
            return False
        homes.add((one.device, one.untyped_storage().data_ptr()))
    return len(homes) == len(tensors)


def _texts(metadata: Any) -> bool:
    given = {} if metadata is None else metadata
    return type(given) is dict and all(
        type(name) is str and type(one) is str for name, one in given.items()
    )
