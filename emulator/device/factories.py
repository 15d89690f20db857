"""Tensors made on the device from nothing: ``torch.zeros(3, device="emulated")`` and its like.

They have no tensor to be dispatched on, so they are kernels of PyTorch's spare backend. All others
(``zeros``, ``randn``, ...) make an empty tensor and fill it, which is an operator like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from emulator.device import copies, devices
from emulator.device.clock import now
from emulator.device.dispatch import launch, where
from emulator.device.tensor import EmulatedTensor

NAMES = (
    "arange",
    "empty",
    "empty_strided",
    "eye",
    "linspace",
    "logspace",
    "randperm",
    "range",
    "tril_indices",
    "triu_indices",
)
_library: list[Any] = []
"""registrations live as long as this"""


def _kernel(func: Any, free: bool) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        begun = now()
        index = where(kwargs.pop("device", None) or "emulated")
        kwargs.pop("pin_memory", None)
        inner = func(*args, **kwargs, device="cpu")
        made = EmulatedTensor(inner, index if index is not None else devices.current())
        if not free:
            packet = func._overloadpacket
            launch(devices.device(made.get_device()), packet, (), (inner,), begun)
        return made

    return kernel


def _copy_from(source: Any, target: Any, non_blocking: bool = False) -> Any:
    """What ``torch.tensor(values, device=...)`` fills the new tensor with."""
    func = torch.ops.aten.copy_.default
    done = copies.copy_(func, (target, source, non_blocking), {}, now())
    return target if done is None else done[0]


def install() -> None:
    """Register all kernels."""
    library = torch.library.Library("aten", "IMPL")
    for name in NAMES:
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            func = getattr(packet, overload)
            arguments = func._schema.arguments
            made = any(each.name == "device" for each in arguments)
            if made and not any("Tensor" in str(each.type) for each in arguments):
                full = f"{name}.{overload}" if overload != "default" else name
                library.impl(full, _kernel(func, name.startswith("empty")), "PrivateUse1")
    library.impl("_copy_from", _copy_from, "PrivateUse1")
    _library.append(library)
