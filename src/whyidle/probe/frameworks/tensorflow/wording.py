"""Labels of spans in the words of TensorFlow and Keras."""

from __future__ import annotations

from typing import Any

from ... import wire

INPUT = "tf.data: next batch"


def name_batch(iterator: type) -> tuple[str, str]:
    """Return role and label of the batches that iterators of this class return."""
    return wire.BATCH_FROM_ITERATOR, INPUT


def name_optimizer(optimizer: Any) -> str:
    """Return the label of a step: of a traced function, or of an optimizer of Keras."""
    label = getattr(optimizer, "label", None)
    return label if isinstance(label, str) else f"{type(optimizer).__name__}.apply"
