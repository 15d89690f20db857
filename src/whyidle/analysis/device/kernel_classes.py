"""Classification of kernels by name: group, precision, use of tensor cores. Names come from cuBLAS,
cuDNN, CUTLASS, ATen, Triton/Inductor, Composable Kernel, AITER, Tensile, NCCL and RCCL, and from
the serving engines. The first matching rule of ``kernel_rules.tsv`` decides: wrappers (embedding
with a fused optimizer) come before what they wrap. Names of Inductor, which list the operators that
it fused, are decided by their prefix."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from itertools import groupby
from typing import Final, NamedTuple

from msgspec import Struct

_TRITON: Final = re.compile(r"^triton_(poi|red|per|for|tem|split_scan|mm|bmm)")
_HELPER: Final = re.compile(
    r"splitK_?reduce|ReduceSplitK|epilogue::impl|scal_kernel|reduce_1Block|compute\w*Offsets|"
    r"winograd\w*(Data|Filter|Delta|Output|Tiles)|generateWinograd|fft[12]d_|flip_filter|"
    r"pointwise_mult|im2col|im2d2col|col2im|reduce_wgrad|add_tensor|SubTensor|kern_precompute",
    re.I,
)
"""parts of a matrix product or convolution that multiply nothing themselves"""
_SCALAR: Final = re.compile(
    r"(?<![a-z])[shdczg]+gemm|simt|scudnn|ffma|gemv|gemmSN|gemmk1|dot_kernel", re.I
)
_TENSOR_SURE: Final = re.compile(r"tensorop|s884|h884|1688|16816|161616", re.I)
_TENSOR: Final = re.compile(
    r"1688|16816|161616|16832|884|hmma|imma|wmma|mfma|tensorop|gmma|sm[89]0_xmma|sm1\d0_xmma|"
    r"nvjet|xdl|_MI\d+x\d+|gtcx|tf32|tfloat32|flash|fmha|_attn|attn_|^triton_(tem|mm|bmm)|"
    r"fused_moe|marlin|machete|deep_gemm|matmul_ogs|\bbmm_|PagedKV|_w8a8_|gemm_a8w8|scaled_mm",
    re.I,
)
_CIJK: Final = re.compile(r"Cijk_A[a-z]+_B[a-z]+_(F8|B8|I8|4xi8|X|B|H|S|D|C|Z)")
_CIJK_TYPES: Final = {
    "F8": "fp8",
    "B8": "fp8",
    "I8": "int8",
    "4xi8": "int8",
    "X": "tf32",
    "B": "bf16",
    "H": "fp16",
    "S": "fp32",
    "D": "fp64",
    "C": "fp32",
    "Z": "fp64",
}
_NVJET: Final = re.compile(r"nvjet_(?:sm\d+_)?([a-z])")
_NVJET_TYPES: Final = {"h": "fp16", "t": "bf16", "s": "tf32", "q": "fp8", "r": "fp8", "o": "fp8"}
_PRECISION: Final = (
    ("fp8", re.compile(r"fp8|e4m3|e5m2|float8", re.I)),
    ("bf16", re.compile(r"bf16|bfloat16|DF16b", re.I)),
    ("fp16", re.compile(r"fp16|(?<![a-z])f16|half(?![a-z])|hgemm|h884|h1688|h16816|DF16_", re.I)),
    ("tf32", re.compile(r"tf32|tfloat32|tensorop_s1688", re.I)),
    ("fp64", re.compile(r"double(?![a-z])|[dz]gemm|d884|fp64|f64", re.I)),
    ("fp32", re.compile(r"float|[sc]gemm|fp32|f32|scudnn", re.I)),
    ("int8", re.compile(r"int8|i8816|i16832|imma|\bs8_", re.I)),
)  # fmt: skip
_OF_SCALARS: Final = re.compile(
    r"^(?:(?!double).)*?(?<![a-z])float(?![a-z]).*(?<![a-z])double(?![a-z])", re.I | re.S
)
"""A template names the type of its elements first; a ``double`` after it is that of a scalar, as
the rate of a fused optimizer is, or of a sum."""
MATH_GROUPS: Final = frozenset({"matrix_product", "convolution", "attention"})


class KernelRule(NamedTuple):
    """Kernels whose names match ``pattern``, in any case, belong to ``group``."""

    group: str
    pattern: str
    matches: str
    avoids: str


def read_kernel_rules() -> tuple[KernelRule, ...]:
    """Return all rules; the first that matches a name decides."""
    table = files(__package__).joinpath("kernel_rules.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in table.splitlines() if line and line[0] != "#")
    return tuple(KernelRule(*row) for row in rows)


_COMPILED: Final = tuple(
    (group, re.compile("|".join(rule.pattern for rule in rules), re.I))
    for group, rules in groupby(read_kernel_rules(), key=lambda rule: rule.group)
)
GROUPS: Final = (*dict.fromkeys(group for group, _ in _COMPILED), "other")


class KernelClass(Struct, frozen=True):
    """Class of a kernel by its name."""

    group: str
    precision: str | None
    """None: not in the name"""
    tensor: bool | None
    """whether its matrix work runs on tensor cores; None: no such work"""


@lru_cache(maxsize=65536)
def classify_kernel(name: str) -> KernelClass:
    """Classify one kernel by its name."""
    triton = _TRITON.match(name)
    first = next((group for group, pattern in _COMPILED if pattern.search(name)), "other")
    group = _triton_group(triton[1], name) if triton else first
    tensor = _uses_tensor_cores(name) if group in MATH_GROUPS and not _HELPER.search(name) else None
    return KernelClass(group, _kernel_precision(name, group), tensor)


def _triton_group(kind: str, name: str) -> str:
    """Inductor's names list the fused operators; only the prefix shows the kind of kernel."""
    if kind in ("tem", "mm", "bmm"):
        if "attention" in name:
            return "attention"
        return "convolution" if "convolution" in name else "matrix_product"
    if kind in ("red", "per", "split_scan"):
        return "normalisation" if "norm" in name else "reduction"
    if kind == "for":
        return "optimizer"
    return "elementwise"


def _uses_tensor_cores(name: str) -> bool:
    if _SCALAR.search(name) and not _TENSOR_SURE.search(name):
        return False
    return bool(_TENSOR.search(name))


def _kernel_precision(name: str, group: str) -> str | None:
    if match := _CIJK.search(name):
        return _CIJK_TYPES[match[1]]
    if match := _NVJET.search(name):
        return _NVJET_TYPES.get(match[1])
    if name.startswith("batched_transpose"):  # named by element size, not by type
        return None
    if name.startswith("_ZN2ck") and re.search(r"[It]ttft|Ettft|_ttft", name):
        return "bf16"  # Composable Kernel holds bf16 as unsigned short (t), accumulates in float
    if group in MATH_GROUPS and "cublas" in name and "nv_bfloat16" in name:
        return "bf16"
    word = next((word for word, pattern in _PRECISION if pattern.search(name)), None)
    return "fp32" if word == "fp64" and _OF_SCALARS.search(name) else word
