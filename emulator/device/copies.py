"""Copies between the host and the device, and reads of single values.

As a CUDA device has it: a copy runs on the current stream; the host waits for it, and so for all
before it, unless it was asked not to and the memory of the host is pinned (or, to the device, few
bytes that are staged).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from emulator.device import devices, pinning
from emulator.device.config import Config
from emulator.device.device import Device
from emulator.device.stream import COPY_IN, COPY_OUT, Cost
from emulator.device.tensor import EmulatedTensor

Done = tuple[Any] | None
"""the result, or None: it is an operator like any other"""


def price(config: Config, kind: str, size: int, pinned: bool) -> Cost:
    """Of one copy over the link."""
    bandwidth = config.pinned_bandwidth if pinned else config.pageable_bandwidth
    bandwidth *= config.link_width / config.link_width_max
    return Cost(kind, config.copy_ns + int(size / bandwidth * 1e9), bytes_=size)


def to_device(device: Device, source: torch.Tensor, unblocked: bool, begun: int) -> None:
    """The time of a copy to the device."""
    pinned = pinning.is_pinned(source)
    name = f"Memcpy HtoD ({'Pinned' if pinned else 'Pageable'} -> Device)"
    device.launch(price(device.config, COPY_IN, source.nbytes, pinned), begun, name=name)
    staged = source.nbytes <= device.config.staged_bytes
    if not (unblocked and (pinned or staged)):
        device.synchronize(device.current, "copy in, pinned" if pinned else "copy in, pageable")


def to_host(
    device: Device, size: int, target: torch.Tensor | None, unblocked: bool, begun: int
) -> None:
    """The time of a copy to the host."""
    pinned = target is not None and pinning.is_pinned(target)
    name = f"Memcpy DtoH (Device -> {'Pinned' if pinned else 'Pageable'})"
    device.launch(price(device.config, COPY_OUT, size, pinned), begun, name=name)
    if not (unblocked and pinned):
        device.synchronize(device.current, "copy out")


def copy_(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], begun: int) -> Done:
    """``target.copy_(source, non_blocking)``."""
    target, source = args[:2]
    unblocked = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
    to, of = isinstance(target, EmulatedTensor), isinstance(source, EmulatedTensor)
    if to and of and target.get_device() == source.get_device():
        return None
    func(target.numbers if to else target, source.numbers if of else source)
    if not to:
        to_host(devices.device(source.get_device()), source.nbytes, target, unblocked, begun)
    elif not of:
        to_device(devices.device(target.get_device()), source, unblocked, begun)
    else:
        between(source, target.get_device(), begun)
    return (target,)


def between(source: EmulatedTensor, index: int, begun: int) -> None:
    """The time of a copy from one device to another: each waits for the other."""
    first, second = devices.device(source.get_device()), devices.device(index)
    price_ = price(first.config, COPY_OUT, source.nbytes, True)
    first.launch(price_, begun, name="Memcpy PtoP (Device -> Device)")
    done = first.mark()
    with second.lock:
        second.current.wait(done)


def to_copy(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], begun: int) -> Done:
    """``tensor.to(...)`` of a tensor on the device, where it leaves it."""
    source, asked = args[0], kwargs.get("device")
    if asked is None or asked == source.device:
        return None
    kept = {name: each for name, each in kwargs.items() if name not in ("device", "non_blocking")}
    inner = func(source.numbers, **kept)
    index = source.get_device()
    if asked.type == "emulated":
        other = devices.current() if asked.index is None else asked.index
        if other == index:
            return None
        between(source, other, begun)
        return (EmulatedTensor(inner, other),)
    to_host(devices.device(index), source.nbytes, None, False, begun)
    return (inner,)


def scalar(func: Any, args: Sequence[Any], _: Mapping[str, Any], begun: int) -> Done:
    """``tensor.item()``, and all that comes down to it: the stream is drained."""
    device = devices.device(args[0].get_device())
    cost = Cost(COPY_OUT, device.config.copy_ns, bytes_=args[0].nbytes)
    device.launch(cost, begun, name="Memcpy DtoH (Device -> Pageable)")
    device.synchronize(device.current, "item")
    return (func(args[0].numbers),)
