"""Makes ``emulated`` a device type of PyTorch, by the backend that it keeps for others."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.utils import backend_registration

from emulator.device import (
    autocast,
    collectives,
    dispatch,
    factories,
    module,
    pinning,
    profile,
    publish,
    truth,
)
from emulator.device.streams import index_of
from emulator.device.tensor import EmulatedTensor, handlers

MEMORY = (
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
)
_done: list[bool] = []


def install() -> None:
    """Once in a process.

    Raises:
        ImportError: a PyTorch that has no backends written in Python.
    """
    if _done:
        return
    setup = getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)
    if setup is None:
        raise ImportError("the emulated accelerator needs PyTorch 2.9 or newer")
    _done.append(True)
    setup("emulated", backend_module=sys.modules[module.__name__])
    factories.install()
    autocast.install()
    pinning.install()
    truth.install()
    publish.install()
    profile.install()
    collectives.install()
    handlers["run"] = dispatch.run
    _accelerator()
    _modules()


def _modules() -> None:
    """A model that is moved keeps its parameters' identity (ties, optimizers made before)."""
    torch.__future__.set_swap_module_params_on_conversion(True)
    from torch.optim import optimizer  # noqa: PLC0415 (only a job that trains needs it)

    supported: list[Any] = getattr(optimizer, "_foreach_supported_types", [])
    supported.append(EmulatedTensor)


def _accelerator() -> None:
    """``torch.accelerator`` asks a guard that knows nothing of streams: it is to ask us."""
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return

    def synchronize(device: Any = None, /) -> None:
        module.synchronize(index_of(device))

    accelerator.synchronize = synchronize
    accelerator.current_stream = module.current_stream
    accelerator.device_count = module.device_count
    accelerator.current_device_index = module.current_device
    accelerator.set_device_index = module.set_device
    for name in MEMORY:
        if hasattr(accelerator, name):
            setattr(accelerator, name, getattr(module, name))
