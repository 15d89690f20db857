"""A job whose results are off by what another order of its sums brings: how far does it go astray?

As in Monte Carlo arithmetic (Parker, 1997): what each module returns, and each gradient before the
optimizer takes it, is off by a random share of it, as small as roundings are. How far the losses of
such a run go from those of the job as it is tells how far any other order of the same sums may take
them. The random numbers are our own: the job draws what it would without us.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...core import containment
from .tracing import tracing_query

OUTPUTS, GRADIENTS = 0, 1
"""kinds: of gradients all ranks draw the same, so that their parameters stay the same"""
UNITS = 64
"""units in the last place that a result is off by at most: rounding errors of a sum of n terms grow
like the root of n, and layers sum thousands"""
HALF = ("float16", "bfloat16")
"""sums of these types are taken in single precision: only their result is rounded to one unit"""
TENSOR_FLOAT, AMPERE = 2.0**-11, (8, 0)
"""TF32 cuts a factor of single precision to so much; GPUs from this one on compute with it"""


class RoundingNoise:
    """What is put between a job and its own numbers."""

    def __init__(self, folder: str, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.drawn: dict[tuple[int, Any], Any] = {}
        self.undo: list[Callable[[], None]] = []
        self.failed = False

    def install_hooks(self) -> None:
        """From here on."""
        from torch.nn.modules.module import register_module_forward_hook
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        compiling = tracing_query()

        def after(module: Any, args: Any, output: Any) -> Any:
            return (
                None
                if compiling()
                else self.run_contained(lambda: self.perturb_output(output, module))
            )

        def before(optimizer: Any, args: Any, kwargs: Any) -> None:
            if not compiling():
                self.run_contained(lambda: self.perturb_gradients(_optimizer_parameters(optimizer)))

        for handle in (
            register_module_forward_hook(after),
            register_optimizer_step_pre_hook(before),
        ):
            self.undo.append(handle.remove)

    def remove_hooks(self) -> None:
        """The job's own numbers again."""
        while self.undo:
            self.undo.pop()()

    def run_contained(self, work: Callable[[], Any]) -> Any:
        """A fault of ours ends the swaying, and never the job."""
        try:
            return work()
        except Exception as error:
            self.failed = True
            containment.contain_fault(self.folder, "rounding", error, self.remove_hooks)
            return None

    def perturb_output(self, output: Any, module: Any = None) -> Any:
        """What stands for a module's output; None where it stands for itself."""
        if type(output) is tuple:
            return tuple(
                self.perturb_output(one, module) if _is_plain_tensor(one) else one for one in output
            )
        return (
            self.rounding_error(output, OUTPUTS, module).add_(output)
            if _is_plain_tensor(output)
            else None
        )

    def perturb_gradients(self, parameters: Iterable[Any]) -> None:
        """Sway those that an optimizer is about to take."""
        for parameter in parameters:
            grad: Any = getattr(parameter, "grad", None)
            if _is_plain_tensor(grad):
                grad.detach().add_(self.rounding_error(grad, GRADIENTS))

    def rounding_error(self, tensor: Any, kind: int, module: Any = None) -> Any:
        """How far each element is to be off, in a new tensor. It is added: a product would keep it
        for the backward pass, beside each output, and a job that fills its device has no room."""
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
        return made.nan_to_num_(0.0, 0.0, 0.0)  # what is infinite, as masked scores are, stays so


def _largest_error(tensor: Any, module: Any) -> float:
    """How far a result is off at most, as a share of it."""
    import torch

    if _tensor_float(tensor, module):
        return TENSOR_FLOAT
    units = 1 if str(tensor.dtype).rpartition(".")[2] in HALF else UNITS
    return float(units * torch.finfo(tensor.dtype).eps)


def _tensor_float(tensor: Any, module: Any) -> bool:
    """Whether factors may be cut to TF32 in it: with another layout or algorithm they may not."""
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
    """What PyTorch tells of TF32; where a job has set the newer switch, the older one raises."""
    try:
        return bool(owner.allow_tf32)
    except RuntimeError:
        return bool(newer().fp32_precision == "tf32")


def _is_plain_tensor(tensor: Any) -> bool:
    """Whether it is a tensor of numbers as usual, and not part of what is only being captured."""
    import torch

    if type(tensor) is not torch.Tensor or not tensor.is_floating_point():
        return False
    captured = tensor.is_cuda and torch.cuda.is_current_stream_capturing()
    return tensor.layout is torch.strided and not captured


def _optimizer_parameters(optimizer: Any) -> Iterable[Any]:
    for group in getattr(optimizer, "param_groups", []):
        yield from group["params"]
