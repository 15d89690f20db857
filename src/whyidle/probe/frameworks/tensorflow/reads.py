"""Records where the thread that trains waits for the value of a tensor of TensorFlow."""

from __future__ import annotations

from typing import Any

from ...core.events import Events
from ...core.host_reads import HOOK, HostReads
from ...core.wrapped_functions import set_attribute

READ = "_numpy"
"""what ``numpy()``, ``float()``, ``print``, a condition and ``np.asarray`` call"""


def install_read_hooks(events: Events) -> None:
    """Watch the method through which the value of a tensor reaches Python."""
    from tensorflow.python.framework import ops

    kind = ops._EagerTensorBase
    read = HostReads(events).watch(getattr(kind, READ), "EagerTensor.numpy", is_elsewhere)
    events.undo[HOOK] = set_attribute(kind, READ, read)


def is_elsewhere(tensor: Any) -> bool:
    """Whether a tensor is on a device of its own: where the CPU is the device, it has computed the
    tensor when the call returns that makes it."""
    return "CPU" not in tensor.device
