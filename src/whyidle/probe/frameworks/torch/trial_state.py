"""What a training process of PyTorch holds; see ``core.trial_state``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from ...core.trial_state import TrialDevice
from ...wire import ProcessFacts
from . import accelerator
from .device_clock import clock_of

MOST_ELEMENTS = 1 << 16


def local(parameter: Any) -> Any:
    """Of what is spread over ranks, this one's part: a number of the whole is an exchange, and
    hangs where one rank alone asks for it."""
    return getattr(parameter, "_local_tensor", parameter).detach()


def largest(optimizer: Any) -> tuple[Any, Any] | None:
    """The largest tensor that it updates, of those that are not too large to be copied: what it is
    now, and itself."""
    groups = getattr(optimizer, "param_groups", [])
    each = [p for group in groups for p in group["params"] if p.numel() <= MOST_ELEMENTS]
    largest = max(each, key=lambda p: p.numel(), default=None)
    return None if largest is None else (local(largest).clone(), largest)


def norm(optimizer: Any) -> Any:
    """The sum of the norms of all that it updates; of what is spread over ranks, this one's."""
    import torch

    groups = getattr(optimizer, "param_groups", [])
    each = [local(p) for group in groups for p in group["params"]]
    norms = [p.norm().double() for p in each if p.is_floating_point() and p.layout is torch.strided]
    return sum(norms[1:], norms[0]) if len({norm.device for norm in norms}) == 1 else None


def device_bytes(index: int | None) -> int | None:
    """Bytes that tensors take on the device, which nothing has to wait for. ``index`` is its
    number; None: the current one's."""
    cuda = _cuda_module()
    return int(cuda.memory_allocated(index)) if cuda else None


def device_peak(index: int | None) -> int | None:
    """Bytes that tensors took on the device at most."""
    cuda = _cuda_module()
    return int(cuda.max_memory_allocated(index)) if cuda else None


def device_free(index: int | None) -> int | None:
    """Bytes that the device still has."""
    cuda = _cuda_module()
    return int(cuda.mem_get_info(index)[0]) if cuda else None


def random_state(index: int | None) -> bytes:
    """Of PyTorch's own generator, on the device that it computes on."""
    import torch

    cuda = _cuda_module()
    at = "cuda" if index is None else index
    state = cuda.get_rng_state(at) if cuda else torch.get_rng_state()
    return bytes(state.numpy())


def _cuda_module() -> Any:
    """CUDA, where the job uses it."""
    import torch

    cuda: Any = torch.cuda
    return cuda if cuda.is_initialized() else None


def device_of(optimizer: Any) -> TrialDevice:
    """Where the parameters of an optimizer are."""
    import torch

    kind = accelerator.device_type(torch, optimizer)
    index, module = (
        accelerator.device_index(optimizer, kind),
        accelerator.device_module(torch, kind),
    )
    facts: ProcessFacts = {"device": kind, "device_index": index}
    return TrialDevice(module, index, None if module is None else clock_of(torch, facts))


def loss_of(tensors: Any) -> Any:
    """The sum of what a backward pass starts from: of one on the CPU a number, as reading it waits
    for nothing."""
    each = tensors if isinstance(tensors, (list, tuple)) else [tensors]
    loss: Any = sum(one.detach().sum() for one in each)
    plain = type(loss).__name__ == "Tensor" and loss.device.type == "cpu"
    return loss.item() if plain else loss


def gradients(optimizer: Any) -> Iterator[tuple[int, Any]]:
    """Those that an optimizer takes, of this rank, by a number of their parameter."""
    import torch

    for group in optimizer.param_groups:
        for param in group["params"]:
            one = getattr(param.grad, "_local_tensor", param.grad)
            if one is not None and one.layout is torch.strided:
                yield id(param), one.detach().float()


def rank() -> tuple[int, int] | None:
    """Of this process, and the number of ranks; None where no group was made."""
    found = sys.modules.get("torch.distributed")
    if found is not None and found.is_available() and found.is_initialized():
        return int(found.get_rank()), int(found.get_world_size())
    return None
