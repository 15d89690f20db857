"""Framework-neutral properties of operators."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Work = Literal[
    "product",
    "linear",
    "convolution",
    "convolution_gradients",
    "convolution_input_gradient",
    "convolution_weight_gradient",
    "attention",
    "attention_gradients",
]
"""kinds of matrix work whose FLOPs follow from the input shapes"""
Written = Literal["largest", "product", "nothing", "in_place", "copy"]
"""what an operator writes: the size of its largest input, a matrix product, almost nothing, its
first input in place, or its first input from its second"""


class Operator(Struct, frozen=True):
    """Properties of an operator that follow from its name."""

    group: str = "other"  # kernel group
    sized: bool = False  # whether shapes determine the bytes that it moves
    work: Work | None = None  # None: no matrix work
    first: int = 0  # first input of the matrix work
    heads_first: bool = False  # of attention: heads come before positions
    writes: Written = "largest"
    batch: tuple[int, int] | None = None
    """the input whose first dimension is the batch, and the number of its dimensions (0: any above
    one); None: not known"""
