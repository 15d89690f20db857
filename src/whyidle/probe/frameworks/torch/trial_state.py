"""The state of a training process of PyTorch; see ``core.trial_state``."""

from __future__ import annotations

import sys
from typing import Any

from ...core.trial_state import MOST_ELEMENTS, TrialDevice
from ...wire import ProcessFacts
from . import accelerator
from .device_clock import find_clock


def local(parameter: Any) -> Any:
    """Return this rank's part of a sharded parameter: reducing the whole is a collective, which
    hangs if one rank alone calls it."""
    return getattr(parameter, "_local_tensor", parameter).detach()


def largest(optimizer: Any) -> tuple[Any, Any] | None:
    """Return a copy of the largest parameter that is small enough to copy, and the parameter."""
    groups = getattr(optimizer, "param_groups", [])
    small = [p for group in groups for p in group["params"] if p.numel() <= MOST_ELEMENTS]
    largest = max(small, key=lambda p: p.numel(), default=None)
    return None if largest is None else (local(largest).clone(), largest)


def norm(optimizer: Any) -> Any:
    """Return the sum of the norms of the optimizer's parameters, or of this rank's parts."""
    import torch

    groups = getattr(optimizer, "param_groups", [])
    parts = [local(p) for group in groups for p in group["params"]]
    norms = [
        p.norm().double() for p in parts if p.is_floating_point() and p.layout is torch.strided
    ]
    return sum(norms[1:], norms[0]) if len({norm.device for norm in norms}) == 1 else None


def device_bytes(index: int | None) -> int | None:
    """Return the bytes that tensors take on the device, without waiting for it. ``index`` is its
    number; None: the current device."""
    cuda = _cuda_module()
    return int(cuda.memory_allocated(index)) if cuda else None


def device_peak(index: int | None) -> int | None:
    """Return the most bytes that tensors have taken on the device."""
    cuda = _cuda_module()
    return int(cuda.max_memory_allocated(index)) if cuda else None


def device_free(index: int | None) -> int | None:
    """Return the free bytes of the device."""
    cuda = _cuda_module()
    return int(cuda.mem_get_info(index)[0]) if cuda else None


def random_state(index: int | None) -> bytes:
    """Return the state of PyTorch's generator on the device that the job uses."""
    import torch

    cuda = _cuda_module()
    at = "cuda" if index is None else index
    state = cuda.get_rng_state(at) if cuda else torch.get_rng_state()
    return bytes(state.numpy())


def _cuda_module() -> Any:
    """``torch.cuda`` if the job uses it."""
    import torch

    cuda: Any = torch.cuda
    return cuda if cuda.is_initialized() else None


def device_of(optimizer: Any) -> TrialDevice:
    """Return the device of an optimizer's parameters."""
    import torch

    kind = accelerator.device_type(torch, optimizer)
    index, module = (
        accelerator.device_index(optimizer, kind),
        accelerator.device_module(torch, kind),
    )
    facts: ProcessFacts = {"device": kind, "device_index": index}
    return TrialDevice(module, index, None if module is None else find_clock(torch, facts))


def loss_of(tensors: Any) -> Any:
    """Return the sum of the tensors that a backward pass starts from; as a number on the CPU, where
    reading it does not wait."""
    roots = tensors if isinstance(tensors, (list, tuple)) else [tensors]
    loss: Any = sum(tensor.detach().sum() for tensor in roots)
    plain = type(loss).__name__ == "Tensor" and loss.device.type == "cpu"
    return loss.item() if plain else loss


def rank() -> tuple[int, int] | None:
    """Return rank and number of ranks; None without a process group."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    return None
