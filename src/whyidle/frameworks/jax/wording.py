"""How users of JAX write knobs and fixes by hand."""

from __future__ import annotations

from typing import Final

BY_HAND: Final[dict[str, str]] = {
    "model.compile": "jax.jit around the whole step, so that one call launches all of its kernels",
    "autocast.dtype": "parameters and inputs of the forward pass as jax.numpy.{text}",
    "loader.num_workers": "grain or tf.data with {value} workers for reading and decoding",
    "loader.prefetch_factor": "flax.jax_utils.prefetch_to_device(batches, size={value})",
    "copy.non_blocking": "jax.device_put(batch) one step ahead",
}
FIXES: Final[dict[str, str]] = {}
PATCHED: Final[dict[str, str]] = {}
APPLIED: Final[dict[str, str]] = {}
"""knobs that are set in a running process -> the module in ``probe/knobs`` that sets them"""
