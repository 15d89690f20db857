"""The search for a convolution's fastest algorithm that ``cudnn.benchmark`` asks for.

As with cuDNN every algorithm is run and waited for, once for each new shape. Without a search the
library takes one that may be slower.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch

from emulator.device.device import Device
from emulator.device.stream import Cost


def tuned(device: Device, key: Hashable, cost: Cost, again: Callable[[], None]) -> Cost:
    """What a convolution of some shapes costs, after the search for it if there is one. ``again``
    launches it once more."""
    if not torch.backends.cudnn.benchmark:
        return _longer(cost, device.config.untuned)
    if key not in device.searched:
        device.searched.add(key)
        for _ in range(device.config.algorithms):
            again()
            device.synchronize(device.current, "algorithm")
    return cost


def _longer(cost: Cost, times: float) -> Cost:
    if times == 1.0:
        return cost
    return cost._replace(
        ns=int(cost.ns * times),
        active_ns=int(cost.active_ns * times),
        tensor_ns=int(cost.tensor_ns * times),
    )
