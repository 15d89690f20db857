"""The tensor that lives on the emulated device.

Its numbers are an ordinary tensor of the host, computed at once and exactly as on the CPU; what is
emulated is only when. Every operator that reaches it is computed, priced, and enqueued.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from emulator.device import devices
from emulator.device.memory import Block


class EmulatedTensor(torch.Tensor):
    """A tensor without storage of its own, over one of the host."""

    numbers: torch.Tensor
    block: Block

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(
        cls, inner: torch.Tensor, index: int, block: Block | None = None, grad: bool = False
    ) -> EmulatedTensor:
        """Wrap a tensor of the host. Without ``block`` it takes new memory of the device."""
        if block is None:
            block = devices.device(index).memory.allocate(inner.untyped_storage().nbytes())
        made: EmulatedTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device("emulated", index),
            requires_grad=grad,
        )
        if index:
            # PyTorch's engine has a thread for the first device of a backend in Python only: with
            # others, the backward pass is made by the thread that asks for it
            torch._C._set_multithreading_enabled(False)
        made.numbers, made.block = inner, block
        return made

    def __init__(self, *_: Any, **__: Any) -> None:
        """All is done in ``__new__``."""

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Compute one operator, and let the device take its time."""
        return handlers["run"](func, args, kwargs or {})

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        """As of any device: the numbers are fetched, which waits."""
        shown = repr(self.detach().cpu())
        grad = ", requires_grad=True" if self.requires_grad else ""
        return f"{shown[:-1]}, device='{self.device}'{grad})"

    def tolist(self) -> Any:
        """Fetched, which waits."""
        return self.detach().cpu().tolist()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Saved as numbers of the host, with the name of the device."""
        is_parameter = isinstance(self, torch.nn.Parameter)
        numbers = self.detach().cpu()
        return rebuild, (numbers, self.get_device(), self.requires_grad, is_parameter)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        with torch.no_grad():
            copied: Any = self.detach().clone()
        if isinstance(self, torch.nn.Parameter):
            copied = torch.nn.Parameter(copied, self.requires_grad)
        memo[id(self)] = copied.requires_grad_(self.requires_grad)
        if self.grad is not None:
            copied.grad = self.grad.detach().clone()
        return copied

    def record_stream(self, stream: Any) -> None:
        """Memory is never given to another stream too early: nothing to do."""


handlers: dict[str, Callable[..., Any]] = {}
"""``run``: what computes an operator. Filled in at the registration"""


def rebuild(numbers: torch.Tensor, index: int, grad: bool, is_parameter: bool) -> torch.Tensor:
    """What a saved tensor is loaded as."""
    made: torch.Tensor = numbers.to(torch.device("emulated", index))
    return torch.nn.Parameter(made, grad) if is_parameter else made.requires_grad_(grad)
