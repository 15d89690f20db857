"""Autocast for the device: which operators run in the lower precision, and which in fp32.

PyTorch has these lists in C++ for the devices that it knows; a backend written in Python must bring
kernels of its own. The lists are the usual ones of CUDA, for what training uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.library import Library, fallthrough_kernel

LOWER = (
    "addbmm",
    "addmm",
    "addmv",
    "baddbmm",
    "bmm",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d.input",
    "conv_transpose3d.input",
    "convolution",
    "einsum",
    "linear",
    "linalg_multi_dot",
    "matmul",
    "mm",
    "mv",
    "prelu",
    "scaled_dot_product_attention",
)
FULL = (
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy_loss",
    "cumprod",
    "cumsum",
    "exp",
    "group_norm",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "log",
    "log1p",
    "log_softmax.int",
    "mse_loss",
    "nll_loss",
    "nll_loss_nd",
    "norm.Scalar",
    "pow.Tensor_Scalar",
    "prod",
    "reciprocal",
    "rsqrt",
    "smooth_l1_loss",
    "softmax.int",
    "softplus",
    "sum",
    "sum.dim_IntList",
)
KEY = "AutocastPrivateUse1"
_excluded = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, KEY))
_libraries: list[Any] = []


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        castable = value.is_floating_point() and value.dtype is not torch.float64
        on_device = value.device.type == "emulated"
        return value.to(dtype) if castable and on_device and value.dtype is not dtype else value
    if isinstance(value, (list, tuple)):
        return type(value)([_cast(each, dtype) for each in value])
    return value


def _kernel(func: Any, lower: bool) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype("emulated") if lower else torch.float32
        with torch._C._ExcludeDispatchKeyGuard(_excluded):
            cast = [_cast(each, dtype) for each in args]
            return func(*cast, **{name: _cast(each, dtype) for name, each in kwargs.items()})

    return kernel


def install() -> None:
    """Register the kernels, and let all other operators through."""
    everything = Library("_", "IMPL")
    everything.fallback(fallthrough_kernel, KEY)
    library = Library("aten", "IMPL")
    for names, lower in ((LOWER, True), (FULL, False)):
        for name in names:
            packet, _, overload = name.partition(".")
            func = getattr(getattr(torch.ops.aten, packet), overload or "default")
            library.impl(name, _kernel(func, lower), KEY)
    _libraries.extend((everything, library))
