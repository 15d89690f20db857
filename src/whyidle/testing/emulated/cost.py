"""How long the device takes for an operator, from the shapes of what it reads and writes.

    time = kernel_ns * kernels + flops / (peak * precision * layout) + bytes / bandwidth

Both terms of work are added, not overlapped, so that the time of a step is exactly linear in the
batch: ``T(b) = a + k*b``. Operators that only change how memory is looked at cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from whyidle.testing.emulated.config import Config
from whyidle.testing.emulated.stream import COMPUTE, Cost

aten = torch.ops.aten
HALF = (torch.bfloat16, torch.float16)


def _mm(first: Any, second: Any) -> float:
    return 2.0 * first.numel() * second.shape[-1]


def _convolution(big: Any, weight: Any) -> float:
    """``big``: the output, or, of a transposed one, the input."""
    return 2.0 * big.numel() * (weight.numel() // max(weight.shape[0], 1))


def _forward(args: Sequence[Any], outs: Sequence[Any]) -> float:
    return _convolution(args[0] if args[6] else outs[0], args[1])


def _backward(args: Sequence[Any], _: Sequence[Any]) -> float:
    grad, given, weight, transposed, mask = args[0], args[1], args[2], args[7], args[10]
    return _convolution(given if transposed else grad, weight) * (bool(mask[0]) + bool(mask[1]))


def _attention(args: Sequence[Any], _: Sequence[Any]) -> float:
    query, key, value = args[:3]
    rows = query.numel() // query.shape[-1]
    return 2.0 * rows * key.shape[-2] * (query.shape[-1] + value.shape[-1])


def _attention_backward(args: Sequence[Any], outs: Sequence[Any]) -> float:
    return 2.5 * _attention(args[1:], outs)


Flops = Callable[[Sequence[Any], Sequence[Any]], float]
FLOPS: dict[Any, Flops] = {
    aten.mm: lambda args, _: _mm(args[0], args[1]),
    aten.addmm: lambda args, _: _mm(args[1], args[2]),
    aten.bmm: lambda args, _: _mm(args[0], args[1]),
    aten.baddbmm: lambda args, _: _mm(args[1], args[2]),
    aten.mv: lambda args, _: 2.0 * args[0].numel(),
    aten.dot: lambda args, _: 2.0 * args[0].numel(),
    aten.convolution: _forward,
    aten.convolution_backward: _backward,
    aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}
CONVOLUTIONS = (aten.convolution, aten.convolution_backward)
BEHIND = (aten.addmm, aten.baddbmm, aten.convolution_backward)
"""whose first argument is not the one that tells precision and layout"""


def _tensors(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _rate(config: Config, packet: Any, tensor: Any) -> tuple[float, bool]:
    """FLOP/s, and whether tensor cores do them."""
    convolution = packet in CONVOLUTIONS
    factor = 1.0
    if tensor.dtype in HALF:
        factor = config.half_factor
    elif tensor.dtype is torch.float32 and _tf32(convolution):
        factor = config.tf32_factor
    cores = factor > 1.0
    if cores and convolution and tensor.dim() == 4 and _strided(tensor):
        factor *= config.strided_factor
    return config.peak_flops * factor, cores


def _tf32(convolution: bool) -> bool:
    """As PyTorch has it on CUDA: convolutions may by default, matrix products may not."""
    if convolution:
        return bool(torch._C._get_cudnn_allow_tf32())
    return torch.get_float32_matmul_precision() != "highest"


def _strided(image: Any) -> bool:
    return not image.is_contiguous(memory_format=torch.channels_last)


def cost(config: Config, packet: Any, args: Sequence[Any], outs: Sequence[Any]) -> Cost:
    """Of one operator, given the tensors underneath."""
    moved = sum(tensor.nbytes for tensor in _tensors(args))
    moved += sum(tensor.nbytes for tensor in _tensors(outs))
    memory_ns = int(moved / config.bandwidth * 1e9)
    flops = FLOPS.get(packet)
    if flops is None:
        return Cost(COMPUTE, config.kernel_ns + memory_ns, memory_ns, 0, memory_ns)
    sample = args[0 if packet not in BEHIND else 1]
    rate, cores = _rate(config, packet, sample)
    flops_ns = int(flops(args, outs) / rate * 1e9)
    active_ns = flops_ns + memory_ns
    tensor_ns = flops_ns if cores else 0
    return Cost(COMPUTE, config.kernel_ns + active_ns, active_ns, tensor_ns, memory_ns)
