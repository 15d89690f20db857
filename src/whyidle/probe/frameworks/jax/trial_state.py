"""The state of a training process of JAX, by the outputs of its last step; see
``core.trial_state``."""

from __future__ import annotations

import sys
from typing import Any

from ...core.trial_state import Snapshot, TrialDevice


class Devices:
    """Waits for the last step, under the name that the witness uses."""

    def __init__(self, state: StepState) -> None:
        self.state = state

    def synchronize(self) -> None:
        """Wait until the last step has run."""
        for leaf in self.state.leaves()[:1]:
            leaf.block_until_ready()


class StepState:
    """The outputs of the last step: parameters and optimizer state, and mostly the loss."""

    def __init__(self) -> None:
        self.outputs: Any = None

    def leaves(self) -> list[Any]:
        """Return the arrays of floating-point numbers that still exist."""
        from jax import tree_util

        found = tree_util.tree_leaves(self.outputs)
        arrays = [one for one in found if hasattr(one, "is_deleted") and not one.is_deleted()]
        return [one for one in arrays if "float" in str(one.dtype)]

    def find_loss(self) -> Any:
        """Return the last single number among the outputs: losses stand behind the state. A
        parameter of one element has a dimension, a loss mostly none."""
        single = [one for one in self.leaves() if one.size == 1]
        scalars = [one for one in single if not one.ndim]
        return (scalars or single or [None])[-1]

    def device_of(self, optimizer: Any) -> TrialDevice:
        """Return the devices: also on a CPU steps run beside the thread that calls them."""
        return TrialDevice(Devices(self), None, None)

    def loss_of(self, tensors: Any) -> Any:
        """Return the loss without its dimensions of one element; it is read at the end."""
        return tensors.reshape(()) if tensors.ndim else tensors

    def local(self, parameter: Any) -> Snapshot:
        """Return a copy of an array, or of this process's part of it."""
        numpy: Any = sys.modules["numpy"]  # JAX imports it
        whole = getattr(parameter, "is_fully_addressable", True)
        return Snapshot(numpy.asarray(parameter if whole else parameter.addressable_data(0)))

    def largest(self, optimizer: Any) -> tuple[Any, Any] | None:
        """Return nothing: an array never changes, so that none moves."""
        return None

    def norm(self, optimizer: Any) -> Any:
        """Return the sum of the norms of all outputs of the last step; None without any."""
        return sum(self.local(one).norm() for one in self.leaves()) or None

    def random_state(self, index: int | None) -> bytes:
        """Return NumPy's state: JAX's keys are arguments of the job's own."""
        numpy = sys.modules.get("numpy")
        return b"" if numpy is None else repr(numpy.random.get_state()).encode()

    def device_bytes(self, index: int | None) -> int | None:
        """Return None: the memory of the device is not read."""
        return None

    device_peak = device_free = device_bytes

    def rank(self) -> tuple[int, int] | None:
        """Return rank and number of processes of a distributed job."""
        state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
        count = getattr(state, "num_processes", None) or 1
        return (int(getattr(state, "process_id", 0)), int(count)) if count > 1 else None


def host_arrays(given: Any, before: Any) -> list[Any]:
    """Return the arrays among the arguments of a step that the step ``before`` did not return, as
    NumPy arrays; none if one lies on a device, where reading it waits."""
    from jax import tree_util

    numpy: Any = sys.modules["numpy"]
    state = {id(leaf) for leaf in tree_util.tree_leaves(before)}
    leaves = [one for one in tree_util.tree_leaves(given) if id(one) not in state]
    arrays = [one for one in leaves if not (hasattr(one, "is_deleted") and one.is_deleted())]
    if any(_is_on_accelerator(one) for one in arrays):
        return []
    return [numpy.asarray(one) for one in arrays]


def _is_on_accelerator(array: Any) -> bool:
    devices = array.devices() if hasattr(array, "is_deleted") else ()
    return any(device.platform != "cpu" for device in devices)
