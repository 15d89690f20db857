"""What a kernel is, told from its name: its group, its precision, whether tensor cores work.

Names come from cuBLAS, cuDNN, CUTLASS, ATen, Triton/Inductor, Composable Kernel, Tensile, NCCL
and RCCL. Rules are tried in order; the first that matches decides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_GROUPS: Final[tuple[tuple[str, str], ...]] = (
    (
        "communication",
        r"nccl|rccl|msccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|oneshot|twoshot|"
        r"symm_mem|nvshmem|deepep",
    ),
    (
        "optimizer",
        r"multi_tensor_apply|fused_adam|fused_?sgd|lamb_|LAMBStage|adam_|adagrad|optimizer|foreach",
    ),
    (
        "layout",
        r"nchwToNhwc|nhwcToNchw|nchw_to_nhwc|nhwc_to_nchw|batched_transpose|transpose_(readWrite|"
        r"kernel)|kern_precompute",
    ),
    (
        "embedding",
        r"embedding|pooled_embs|index_?select|gather_kernel|lookup|sparse_features|\btbe_",
    ),
    ("attention", r"flash|fmha|attention|_attn|attn_|\bmha_|sdpa|paged"),
    (
        "normalisation",
        r"layer_?norm|batch_?norm|bn_fw|bn_bw|bnorm|rms_?norm|group_?norm|instance_?norm|"
        r"RowwiseMoments|GammaBeta|welford|_norm_kernel|native_norm|MIOpenBatchNorm",
    ),
    (
        "convolution",
        r"conv|dgrad|wgrad|fprop|implicit_gemm|winograd|im2col|col2im|miopen|igemm|Im2d2Col|cudnn.*"
        r"(gemm|xmma)|scudnn|hcudnn",
    ),
    (
        "matrix_product",
        r"gemm|gemv|cutlass|cublas|matmul|\bmm_|_mm\b|splitK|Cijk_|wvSpltK|dot_kernel|\bbmm|xmma|"
        r"nvjet|wgmma|ampere_.*_(tn|nn|nt|tt)\b",
    ),
    ("copy", r"copy|CatArray|memcpy|memset|FillFunctor|_cat_|SetTensor|SubTensor"),
    (
        "reduction",
        r"reduce|softmax|cross_entropy|nll_loss|mean_|sum_|argmax|cumsum|scan|sort|topk|radix|norm",
    ),
    (
        "elementwise",
        r"elementwise|vectorized|unrolled|pointwise|triton_|activation|gelu|relu|dropout|sigmoid|"
        r"add_kernel|mul_|where|masked|index|scatter|upsample|interpolate|distribution|random|"
        r"philox|arange|OpTensor",
    ),
)
_COMPILED: Final = tuple((group, re.compile(pattern, re.I)) for group, pattern in _GROUPS)
GROUPS: Final = (*(group for group, _ in _GROUPS), "other")

_TRITON_REDUCE = re.compile(r"triton_(red|per)_")
_TENSOR = re.compile(
    r"16816|1688|161616|s884|h884|_884|16832|hmma|imma|wmma|mfma|tensorop|wgmma|gmma|hgmma|sm90_xmma|nvjet|xdl|"
    r"_MI(4|16|32)x|gtcx|tf32|flash|fmha|bf16.*gemm.*(tn|nn|nt)|fp16.*gemm.*(tn|nn|nt)|cutlass.*tensor",
    re.I,
)
_PRECISION: Final = (
    ("fp8", re.compile(r"fp8|e4m3|e5m2|float8", re.I)),
    ("bf16", re.compile(r"bf16|bfloat16|Cijk_\w+?_(BBS|BSS|B_B)", re.I)),
    ("fp16", re.compile(r"fp16|f16|half|hgemm|h884|h1688|Cijk_\w+?_(HHS|HSS|H_B)", re.I)),
    ("tf32", re.compile(r"tf32|f32f32_tf32", re.I)),
    ("fp32", re.compile(r"float|sgemm|fp32|f32|scudnn|Cijk_\w+?_(SB|S_B|SSS)", re.I)),
    ("int8", re.compile(r"int8|i8816|imma|\bs8_", re.I)),
    ("fp64", re.compile(r"double|dgemm|fp64|f64", re.I)),
)
MATH_GROUPS: Final = frozenset({"matrix_product", "convolution", "attention"})
MEMORY_GROUPS: Final = frozenset(
    {"elementwise", "reduction", "normalisation", "copy", "layout", "optimizer"}
)


@dataclass(frozen=True, slots=True)
class KernelClass:
    """A kernel's ``group``, ``precision`` (None: the name does not tell) and whether its
    matrix work runs on ``tensor`` cores (None for kernels that have no such work)."""

    group: str
    precision: str | None
    tensor: bool | None


@lru_cache(maxsize=65536)
def classify(name: str) -> KernelClass:
    """Classify one kernel by its name."""
    group = _group(name)
    precision = next((word for word, pattern in _PRECISION if pattern.search(name)), None)
    tensor = None
    if group in MATH_GROUPS:
        tensor = bool(_TENSOR.search(name))
        if tensor and precision == "fp32" and "s1688" in name:
            precision = "tf32"
    return KernelClass(group, precision, tensor)


def _group(name: str) -> str:
    if _TRITON_REDUCE.search(name):
        return "normalisation" if "norm" in name else "reduction"
    return next((group for group, pattern in _COMPILED if pattern.search(name)), "other")
