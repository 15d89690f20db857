"""Whether memory that a recorded step takes grows with its batch."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

BLOCK = 512
"""multiple of bytes in which allocators of GPUs give memory"""


class BatchGrowth:
    """Whether memory of a size grows with the batch: saved tensors with a multiple of its samples
    as a dimension do, and what else divides among the samples but is no parameter, in another
    precision or not."""

    def __init__(self, step: Any, gradients: list[Any]) -> None:
        self.samples = step.size or 1
        self.block = 1 if step.device.type == "cpu" else BLOCK
        tensors = [*step.groups, *gradients]
        apart = {tuple(sorted(tensor.shape)) for tensor in step.groups}
        kept = [(s in apart, self._round(n)) for s, n in step.watch.shapes_with(self.samples)]
        self.shaped = {size for like, size in kept if not like}
        alike = {size for like, size in kept if like}
        own = {self._round(int(t.untyped_storage().nbytes())) for t in tensors}
        self.fixed = own | alike
        self.alike = own & alike
        """of a parameter's shape and type: a copy of it, or activations"""

    def _round(self, size: int) -> int:
        return -(-size // self.block) * self.block

    def __call__(self, size: int) -> bool:
        """Whether memory of so many bytes does."""
        if size in self.shaped or size in self.fixed:
            return size in self.shaped
        return self.block > 1 or size % self.samples == 0 or not self.is_unsure(size)

    def is_unsure(self, size: int) -> bool:
        """Whether nothing tells: it is no parameter's, nor that of a tensor with samples in it, as
        it is or in another type. A kernel's workspace may grow or not."""
        if size in self.shaped or size in self.fixed:
            return size in self.alike - self.shaped
        return self.shaped.isdisjoint((size // 4, size // 2, 2 * size, 4 * size))


def peak_of_twice(rows: list[list[int]], grown: set[int]) -> int:
    """The highest level at twice the batch, if these rows grow."""
    return max(accumulate(row[2] * (1 + (turn in grown)) for turn, row in enumerate(rows)))
