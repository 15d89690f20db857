"""How long the device takes for an operator, from the shapes of what it reads and writes.

    time = kernel_ns * kernels + flops / (peak * precision) + bytes / bandwidth

Convolutions on tensor cores whose images are not channels_last turn their tensors first, a kernel
of its own. Both terms of work are added, not overlapped, so that the time of a step is exactly
linear in the batch: ``T(b) = a + k*b``. Operators that only change how memory is looked at cost
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

from emulator.device.config import Config
from emulator.device.stream import COMPUTE, Cost

aten = torch.ops.aten


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


def _precision(packet: Any, tensor: Any) -> str:
    """In which a product is made."""
    if tensor.dtype is torch.bfloat16:
        return "bf16"
    if tensor.dtype is torch.float16:
        return "fp16"
    return "tf32" if tensor.dtype is torch.float32 and _tf32(packet in CONVOLUTIONS) else "fp32"


def _factor(config: Config, precision: str) -> float:
    if precision == "fp32":
        return 1.0
    return config.tf32_factor if precision == "tf32" else config.half_factor


def _tf32(convolution: bool) -> bool:
    """As PyTorch has it on CUDA: convolutions may by default, matrix products may not."""
    if convolution:
        return bool(torch._C._get_cudnn_allow_tf32())
    return torch.get_float32_matmul_precision() != "highest"


def _turned(packet: Any, precision: str, tensor: Any) -> bool:
    """Whether images have to be turned for the tensor cores, which want the channels last."""
    if packet not in CONVOLUTIONS or precision == "fp32" or tensor.dim() != 4:
        return False
    return not tensor.is_contiguous(memory_format=torch.channels_last)


class Price(NamedTuple):
    """One kernel of an operator, and its precision if it multiplies ("": it does not)."""

    cost: Cost
    precision: str
    turns: bool = False
    """it only turns a tensor for the next"""


def prices(
    config: Config, packet: Any, args: Sequence[Any], outs: Sequence[Any]
) -> tuple[Price, ...]:
    """The kernels of one operator, given the tensors underneath."""
    moved = sum(tensor.nbytes for tensor in _tensors(args))
    moved += sum(tensor.nbytes for tensor in _tensors(outs))
    memory_ns = int(moved / config.bandwidth * 1e9)
    flops = FLOPS.get(packet)
    if flops is None:
        return (Price(Cost(COMPUTE, config.kernel_ns + memory_ns, memory_ns, 0, memory_ns), ""),)
    sample = args[0 if packet not in BEHIND else 1]
    precision = _precision(packet, sample)
    rate = config.peak_flops * _factor(config, precision)
    flops_ns = int(flops(args, outs) / rate * 1e9)
    active_ns = flops_ns + memory_ns
    tensor_ns = 0 if precision == "fp32" else flops_ns
    whole = Cost(COMPUTE, config.kernel_ns + active_ns, active_ns, tensor_ns, memory_ns)
    if not _turned(packet, precision, sample):
        return (Price(whole, precision),)
    turning_ns = int(config.turning * memory_ns)
    turning = Cost(COMPUTE, config.kernel_ns + turning_ns, turning_ns, 0, turning_ns)
    return (Price(turning, "", True), Price(whole, precision))
