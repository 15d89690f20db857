"""What a kernel of the emulated device is called in a profile: names as CUDA's libraries give.

What reads a profile knows kernels by such names. They say what the model of the device does: which
group an operator belongs to, in which precision, on tensor cores or not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import torch

aten = torch.ops.aten

_PRODUCT: Final = {
    "fp32": "ampere_sgemm_128x64_tn",
    "tf32": "cutlass_80_tensorop_s1688gemm_128x64_16x6_tn_align4",
    "bf16": "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn",
    "fp16": "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x3_tn",
}
_CONVOLUTION: Final = {
    "fp32": "implicit_convolve_sgemm<float, float, 128, 5, 5, 3>",
    "tf32": "sm80_xmma_{way}_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x64x32",
    "bf16": "sm80_xmma_{way}_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x64x32",
    "fp16": "sm80_xmma_{way}_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x64x32",
}
LAYOUT: Final = "void cudnn::ops::nchwToNhwcKernel<{ctype}, {ctype}, float, false, true>"
_TYPES: Final = {
    torch.float32: "float",
    torch.float64: "double",
    torch.bfloat16: "c10::BFloat16",
    torch.float16: "c10::Half",
}
_OTHERS: Final = (
    (r"attention", "void pytorch_flash::flash_{op}_kernel<{ctype}>"),
    (
        r"^_(foreach|fused)_",
        "void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, {op}_functor<{ctype}>>",
    ),
    (r"batch_norm|layer_norm|group_norm", "void at::native::vectorized_{op}_kernel<{ctype}>"),
    (r"embedding", "void at::native::{op}_kernel<{ctype}>"),
    (r"softmax", "void softmax_warp_{op}<{ctype}, {ctype}, float, 8>"),
    (
        r"^(sum|mean|max|min|norm|linalg_vector_norm|nll_loss|argmax|topk|sort|any|all|var)",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<{ctype}, {op}_ops>>",
    ),
    (
        r"^(copy_|_to_copy|clone|cat|fill_|zero_|stack)",
        "void at::native::unrolled_elementwise_kernel<{op}_direct_copy_kernel<{ctype}>>",
    ),
    (r"", "void at::native::vectorized_elementwise_kernel<4, {op}_functor<{ctype}>>"),
)
_COMPILED: Final = tuple((re.compile(pattern), text) for pattern, text in _OTHERS)


def kernel_name(packet: Any, precision: str, args: Sequence[Any]) -> str:
    """The name of the kernel that an operator launches."""
    op = packet._qualified_op_name.partition("::")[2]
    if packet is aten.convolution:
        return _CONVOLUTION[precision].format(way="fprop")
    if packet is aten.convolution_backward:
        return _CONVOLUTION[precision].format(way="dgrad")
    if precision and "attention" not in op:
        return _PRODUCT[precision]
    text = next(text for pattern, text in _COMPILED if pattern.search(op))
    return text.format(op=op, ctype=_ctype(args))


def layout_name(args: Sequence[Any]) -> str:
    """The name of the kernel that turns a tensor for a convolution."""
    return LAYOUT.format(ctype=_ctype(args))


def _ctype(values: Sequence[Any]) -> str:
    for value in values:
        if isinstance(value, torch.Tensor):
            return _TYPES.get(value.dtype, str(value.dtype).removeprefix("torch."))
        if isinstance(value, (list, tuple)) and value:
            return _ctype(value)
    return "float"
