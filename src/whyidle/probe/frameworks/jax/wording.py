"""Labels of spans in JAX's spelling."""

from __future__ import annotations

from typing import Any

from ... import wire


def name_batch(iterator: type) -> tuple[str, str]:
    """Return role and label of the batches that iterators of this class return."""
    return wire.BATCH_FROM_ITERATOR, f"{iterator.__module__}.{iterator.__name__}.__next__"


def name_optimizer(optimizer: Any) -> str:
    """Return the label of a training step: the function that was compiled."""
    name = getattr(optimizer, "__name__", "")
    return f"jit({name})" if name else "optax.apply_updates"
