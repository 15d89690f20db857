"""PyTorch's operators by name: the matrix work of ATen, and groups of all operators."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from whyidle.model.operators import Operator, Work, Written

_ATEN: Final = "aten::"

_PRODUCTS: Final[dict[str, int]] = {
    "mm": 0,
    "bmm": 0,
    "_scaled_mm": 0,
    "addmm": 1,
    "_addmm_activation": 1,
    "baddbmm": 1,
    "addmm_": 1,
    "baddbmm_": 1,
}
"""matrix products -> which input is the left one"""
_OUTPUT_KNOWN: Final = frozenset({"mm", "bmm", "addmm", "baddbmm"})
"""products whose output is a new tensor"""
_ATTENTION: Final[dict[str, bool]] = {
    "_flash_attention_forward": False,
    "_efficient_attention_forward": False,
    "_scaled_dot_product_flash_attention": True,
    "_scaled_dot_product_efficient_attention": True,
    "_scaled_dot_product_cudnn_attention": True,
}
"""fused attention -> whether heads come before positions"""
_CONVOLUTIONS: Final = frozenset(
    {"cudnn_convolution", "miopen_convolution", "_convolution", "convolution", "conv2d", "conv1d",
     "conv3d", "cudnn_convolution_relu", "_slow_conv2d_forward", "mkldnn_convolution"}
)  # fmt: skip
_SCALARS: Final = frozenset({"sum", "mean", "norm", "linalg_vector_norm", "any", "all", "argmax",
                             "nll_loss_forward", "_local_scalar_dense", "max", "min"})  # fmt: skip
_BATCHES: Final[dict[str, tuple[int, int]]] = {
    "conv1d": (0, 3),
    "conv2d": (0, 4),
    "conv3d": (0, 5),
    "batch_norm": (0, 0),
    "max_pool2d": (0, 4),
    "scaled_dot_product_attention": (0, 4),
    "embedding": (1, 2),
    "nll_loss": (0, 2),
    "nll_loss_nd": (0, 2),
    "cross_entropy_loss": (0, 2),
    "binary_cross_entropy_with_logits": (0, 0),
}
"""operators -> which input has the batch as its first dimension, and its rank (0: any above 1)"""
_GROUPS: Final = (
    ("matrix_product", re.compile(r"mm$|mm_|matmul|linear|baddbmm|einsum|::dot$|::mv$")),
    ("convolution", re.compile(r"conv")),
    ("attention", re.compile(r"attention")),
    ("optimizer", re.compile(r"_fused_(adam|sgd|adagrad)|_foreach_")),
    ("random", re.compile(r"::(normal|uniform|bernoulli|rand\w*|multinomial|exponential)_?$")),
    ("normalisation", re.compile(r"norm")),
    ("reduction", re.compile(r"::_?(sum|mean|max|min|argmax|var|std|\w*softmax|nll)|loss")),
    ("indexing", re.compile(r"embedding|index_|::index$|gather|scatter")),
    ("copy", re.compile(r"copy_?$|clone|::cat$|::_to_copy|::to$|contiguous|empty|resize_")),
    (
        "elementwise",
        re.compile(
            r"::_?(add|sub|mul|div|sqrt|exp|pow|relu|gelu|silu|sigmoid|tanh|lerp|zero|fill|"
            r"dropout|threshold|where|clamp|neg|abs|square)"
        ),
    ),
)


@lru_cache(maxsize=16384)
def describe_operator(name: str) -> Operator:
    """What the operator of a recorded name does."""
    own, short = name.startswith(_ATEN), name.removeprefix(_ATEN)
    work, first, heads_first = _matrix_work(short)
    return Operator(
        group=next((group for group, pattern in _GROUPS if pattern.search(name)), "other"),
        sized=own,
        work=work,
        first=first,
        heads_first=heads_first,
        writes=_written_inputs(short),
        batch=_BATCHES.get(short) if own else None,
    )


def _matrix_work(short: str) -> tuple[Work | None, int, bool]:
    """Kind of matrix work, its first input, and whether heads come before positions."""
    plain = short.removesuffix("_out")
    if plain in _PRODUCTS:
        return "product", _PRODUCTS[plain], False
    if plain == "linear":
        return "linear", 0, False
    if plain == "convolution_backward":
        return "convolution_gradients", 0, False
    if short in _CONVOLUTIONS:
        return "convolution", 0, False
    if short in ("cudnn_convolution_backward_input", "miopen_convolution_backward_input"):
        return "convolution_input_gradient", 0, False  # as PyTorch before 1.11 called them
    if short in ("cudnn_convolution_backward_weight", "miopen_convolution_backward_weight"):
        return "convolution_weight_gradient", 0, False
    return _attention_work(plain)


def _attention_work(plain: str) -> tuple[Work | None, int, bool]:
    if plain in _ATTENTION:
        return "attention", 0, _ATTENTION[plain]
    stem = plain.removesuffix("_backward")
    for forward in (stem, f"{stem}_forward"):
        if stem != plain and forward in _ATTENTION:
            return "attention_gradients", 1, _ATTENTION[forward]
    return None, 0, False


def _written_inputs(short: str) -> Written:
    if short in _OUTPUT_KNOWN:
        return "product"
    if short in _SCALARS:
        return "nothing"
    if short in ("fill_", "zero_"):
        return "in_place"
    return "copy" if short == "copy_" else "largest"
