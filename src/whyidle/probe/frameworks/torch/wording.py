"""Labels of spans in PyTorch's spelling, which importers of its own traces know."""

from __future__ import annotations

from typing import Any

from ... import wire


def name_batch(iterator: type) -> tuple[str, str]:
    """Return role and label of the batches that iterators of this class return."""
    from torch.utils.data import dataloader

    label = f"enumerate(DataLoader)#{iterator.__name__}.__next__"
    if issubclass(iterator, dataloader._MultiProcessingDataLoaderIter):
        return wire.BATCH_FROM_WORKERS, label
    inline = issubclass(iterator, dataloader._SingleProcessDataLoaderIter)
    return wire.BATCH_INLINE if inline else wire.BATCH_FROM_ITERATOR, label


def name_optimizer(optimizer: Any) -> str:
    """Return the label of an optimizer's steps."""
    return f"Optimizer.step#{type(optimizer).__name__}.step"
