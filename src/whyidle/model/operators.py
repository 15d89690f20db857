"""What an operator does, in words that hold for every framework."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
"""kinds of matrix work whose FLOPs can be told from the shapes of the inputs"""
Written = Literal["largest", "product", "nothing", "in_place", "copy"]
"""what an operator writes: as much as its largest input, a matrix product, next to nothing, only
its first input, or its first input from its second"""


@dataclass(frozen=True, slots=True)
class Operator:
    """What is known of an operator by its name."""

    group: str = "other"
    """as kernels are grouped"""
    sized: bool = False
    """whether its inputs and its output are tensors, so that shapes tell the bytes it moves"""
    work: Work | None = None
    """None: no matrix work"""
    first: int = 0
    """the first input that matrix work is done on"""
    heads_first: bool = False
    """of attention: heads come before positions"""
    writes: Written = "largest"
    batch: tuple[int, int] | None = None
    """the input whose first dimension is the batch, and the number of its dimensions (0: any above
    one); None where that is not known"""
