"""The state of a training process of TensorFlow; see ``core.trial_state``."""

from __future__ import annotations

import os
from math import prod
from typing import Any

from ...core.trial_state import MOST_ELEMENTS, Snapshot, TrialDevice
from .training_function import TrainingFunctions


class Devices:
    """Waits for all devices, under the name that the witness uses."""

    def synchronize(self) -> None:
        """Wait until all work of the devices is done."""
        import tensorflow

        tensorflow.test.experimental.sync_devices()


class KerasState:
    """The state of the process whose optimizer is the last one that Keras used. A step of a
    function without one has no parameters that could be read."""

    def __init__(self, found: TrainingFunctions) -> None:
        self.found = found

    def variables(self) -> list[Any]:
        """Return the variables that the optimizer updates."""
        optimizer = self.found.optimizer
        listed = getattr(optimizer, "_trainable_variables", None) or []
        return [one for one in listed if "float" in str(one.dtype)]

    def device_of(self, optimizer: Any) -> TrialDevice:
        """Return the device that the process trains on."""
        import tensorflow

        gpus = tensorflow.config.list_logical_devices("GPU")
        return TrialDevice(Devices() if gpus else None, None, None)

    def loss_of(self, tensors: Any) -> Any:
        """Return a loss as a number on the CPU, where reading it does not wait, else the tensor."""
        import tensorflow

        loss = tensors
        if isinstance(loss, (list, tuple)):
            loss = sum(tensorflow.reduce_sum(one) for one in loss)
        elif loss.shape.rank:
            loss = tensorflow.reduce_sum(loss)
        return loss if "GPU" in str(loss.device) else float(loss)

    def local(self, parameter: Any) -> Snapshot:
        """Return a copy of a variable."""
        return Snapshot(parameter.numpy())

    def largest(self, optimizer: Any) -> tuple[Any, Any] | None:
        """Return a copy of the largest variable that is small enough to copy, and the variable."""
        sized = [
            (prod(map(int, one.shape)), number, one) for number, one in enumerate(self.variables())
        ]
        small = [each for each in sized if each[0] <= MOST_ELEMENTS]
        largest = max(small, default=None)
        return None if largest is None else (self.local(largest[2]), largest[2])

    def norm(self, optimizer: Any) -> Any:
        """Return the sum of the norms of all variables; None without any."""
        return sum(self.local(one).norm() for one in self.variables()) or None

    def random_state(self, index: int | None) -> bytes:
        """Return the state of TensorFlow's global generator of seeds."""
        from tensorflow.python.eager import context

        generator = context.context()._rng
        return repr(None if generator is None else generator.getstate()).encode()

    def device_bytes(self, index: int | None) -> int | None:
        """Return None: TensorFlow tells it of GPUs only, by a call that waits."""
        return None

    device_peak = device_free = device_bytes

    def rank(self) -> tuple[int, int] | None:
        """Return rank and number of ranks of a job with several workers."""
        if "TF_CONFIG" not in os.environ:
            return None
        import tensorflow

        resolver = tensorflow.distribute.cluster_resolver.TFConfigClusterResolver()
        workers = resolver.cluster_spec().as_dict().get("worker", [])
        return (int(resolver.task_id or 0), len(workers)) if len(workers) > 1 else None


def find_loss(result: Any) -> Any:
    """Return the loss among the results of a step: what is called so, else the first single
    floating-point number; None without one."""
    if hasattr(result, "has_value") and hasattr(result, "get_value"):
        # as Keras wraps what ``fit`` returns; there is none at the end of an epoch
        return find_loss(result.get_value()) if result.has_value() else None
    if isinstance(result, dict):
        return find_loss(result["loss"]) if "loss" in result else find_loss([*result.values()])
    if isinstance(result, (list, tuple)):
        found = (find_loss(one) for one in result)
        return next((one for one in found if one is not None), None)
    dtype = getattr(result, "dtype", None)
    single = dtype is not None and getattr(dtype, "is_floating", False)
    return result if single and result.shape.rank == 0 else None


def host_arrays(given: Any) -> list[Any]:
    """Return the tensors among the arguments of a step, not its variables, as NumPy arrays; none if
    one lies on a GPU, where reading it waits."""
    import tensorflow

    leaves = tensorflow.nest.flatten(given, expand_composites=True)
    tensors = [one for one in leaves if isinstance(one, tensorflow.Tensor)]
    if any("GPU" in str(one.device) for one in tensors):
        return []
    return [one.numpy() for one in tensors]
