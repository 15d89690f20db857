"""How users of JAX write knobs, if not as declared, and fixes."""

from __future__ import annotations

from typing import Final

BY_HAND: Final[dict[str, str]] = {
    "autocast.dtype": "parameters and inputs of the forward pass as jax.numpy.{text}",
    "autocast.grad_scaler": "jmp.DynamicLossScale around the loss and the gradients",
    "collate.length_buckets": "lengths rounded up to the next of the {text}, with a mask",
    "compile.cache": "export JAX_COMPILATION_CACHE_DIR=FOLDER, one that outlives the job",
    "log.deferred": (
        "`losses.append(loss)` instead of `float(loss)`, and read the list every hundredth step"
    ),
    "model.compile": "jax.jit around the whole step, so that one call launches all of its kernels",
    "step.compile": "@jax.jit above the function that takes the gradients",
}
FIXES: Final[dict[str, str]] = {"bucket-lengths": "with a mask in the loss"}
