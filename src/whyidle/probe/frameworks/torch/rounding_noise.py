"""Adds noise of the size of rounding errors, to measure how far it moves the losses of a job.

As in Monte Carlo arithmetic (Parker, 1997), the output of each module, and each gradient before the
optimizer uses it, is changed by a random relative error as small as rounding errors. The difference
between the losses of such a run and those of the unchanged job bounds the effect of any other order
of the same sums. The noise has generators of its own: the job's random numbers do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...core import fault_containment
from ...core.trial_state import NOISE_UNITS
from .tracing import tracing_query

OUTPUTS, GRADIENTS = 0, 1
"""kinds of noise; for gradients it is the same on all ranks, so that parameters stay equal"""
HALF = ("float16", "bfloat16")
"""types that are summed in single precision: only the result is rounded, to one unit"""
TENSOR_FLOAT, AMPERE = 2.0**-11, (8, 0)
"""relative precision of TF32, and the compute capability from which GPUs use it"""


class RoundingNoise:
    """Changes the outputs and gradients of one process."""

    def __init__(self, folder: str, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.drawn: dict[tuple[int, Any], Any] = {}
        self.undo: list[Callable[[], None]] = []
        self.failed = False

    def install_hooks(self) -> None:
        """Add noise from now on."""
        from torch.nn.modules.module import register_module_forward_hook
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        compiling = tracing_query()

        def after_forward(module: Any, args: Any, output: Any) -> Any:
            return (
                None
                if compiling()
                else self.run_contained(lambda: self.perturb_output(output, module))
            )

        def before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
            if not compiling():
                self.run_contained(lambda: self.perturb_gradients(_optimizer_parameters(optimizer)))

        for handle in (
            register_module_forward_hook(after_forward),
            register_optimizer_step_pre_hook(before_step),
        ):
            self.undo.append(handle.remove)

    def remove_hooks(self) -> None:
        """Stop adding noise."""
        while self.undo:
            self.undo.pop()()

    def run_contained(self, work: Callable[[], Any]) -> Any:
        """Do a hook's work; a fault removes the hooks and never reaches the job."""
        try:
            return work()
        except Exception as error:
            self.failed = True
            fault_containment.contain_fault(self.folder, "rounding", error, self.remove_hooks)
            return None

    def perturb_output(self, output: Any, module: Any = None) -> Any:
        """Return a module's output with noise; None to leave it unchanged."""
        if type(output) is tuple:
            return tuple(
                self.perturb_output(part, module) if _is_plain_tensor(part) else part
                for part in output
            )
        return (
            self.rounding_error(output, OUTPUTS, module).add_(output)
            if _is_plain_tensor(output)
            else None
        )

    def perturb_gradients(self, parameters: Iterable[Any]) -> None:
        """Add noise to the gradients that an optimizer is about to use."""
        for parameter in parameters:
            grad: Any = getattr(parameter, "grad", None)
            if _is_plain_tensor(grad):
                grad.detach().add_(self.rounding_error(grad, GRADIENTS))

    def rounding_error(self, tensor: Any, kind: int, module: Any = None) -> Any:
        """Return the error of each element in a new tensor. It is added to the output: a product
        would store it for the backward pass, for which a job may have no device memory left."""
        import torch

        key = (kind, tensor.device)
        if key not in self.drawn:
            drawn = torch.Generator(tensor.device)
            self.drawn[key] = drawn.manual_seed(2 * self.seed + kind)
        most = _largest_error(tensor, module)
        precise = torch.promote_types(tensor.dtype, torch.float32)
        made = torch.empty_like(tensor.detach(), dtype=precise)
        made.uniform_(-most, most, generator=self.drawn[key])
        made = made.to(tensor.dtype).mul_(tensor.detach())
        return made.nan_to_num_(0.0, 0.0, 0.0)  # infinite values, such as masked scores, stay so


def _largest_error(tensor: Any, module: Any) -> float:
    """Largest relative error of a result."""
    import torch

    if _tensor_float(tensor, module):
        return TENSOR_FLOAT
    units = 1 if str(tensor.dtype).rpartition(".")[2] in HALF else NOISE_UNITS
    return float(units * torch.finfo(tensor.dtype).eps)


def _tensor_float(tensor: Any, module: Any) -> bool:
    """Whether factors may be rounded to TF32, which depends on layout and algorithm."""
    import torch

    backends: Any = torch.backends
    if not tensor.is_cuda or tensor.dtype != torch.float32 or torch.version.hip:
        return False
    if torch.cuda.get_device_capability(tensor.device) < AMPERE:
        return False
    if isinstance(module, torch.nn.modules.conv._ConvNd):
        return _is_tf32_allowed(backends.cudnn, lambda: backends.cudnn.conv)
    if isinstance(module, torch.nn.Linear):
        return _is_tf32_allowed(backends.cuda.matmul, lambda: backends.cuda.matmul)
    return False


def _is_tf32_allowed(owner: Any, newer: Callable[[], Any]) -> bool:
    """Whether PyTorch allows TF32; if a job has set the newer switch, the older one raises."""
    try:
        return bool(owner.allow_tf32)
    except RuntimeError:
        return bool(newer().fp32_precision == "tf32")


def _is_plain_tensor(tensor: Any) -> bool:
    """Whether this is a plain dense tensor of floats, outside a graph capture."""
    import torch

    if type(tensor) is not torch.Tensor or not tensor.is_floating_point():
        return False
    captured = tensor.is_cuda and torch.cuda.is_current_stream_capturing()
    return tensor.layout is torch.strided and not captured


def _optimizer_parameters(optimizer: Any) -> Iterable[Any]:
    for group in getattr(optimizer, "param_groups", []):
        yield from group["params"]
