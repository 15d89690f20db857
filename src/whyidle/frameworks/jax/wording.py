"""How users of JAX write knobs and fixes by hand."""

from __future__ import annotations

from typing import Final

BY_HAND: Final[dict[str, str]] = {
    "autocast.dtype": "parameters and inputs of the forward pass as jax.numpy.{text}",
    "autocast.grad_scaler": "jmp.DynamicLossScale around the loss and the gradients",
    "collate.length_buckets": "lengths rounded up to the next of the {text}, with a mask",
    "compile.cache": "export JAX_COMPILATION_CACHE_DIR=FOLDER, one that outlives the job",
    "jax.check_tracer_leaks": 'jax.config.update("jax_check_tracer_leaks", {value})',
    "jax.compilation_cache": (
        'jax.config.update("jax_compilation_cache_dir", FOLDER) and '
        'jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)'
    ),
    "jax.debug_nans": 'jax.config.update("jax_debug_nans", {value})',
    "jax.disable_jit": 'jax.config.update("jax_disable_jit", {value})',
    "jax.x64": 'jax.config.update("jax_enable_x64", {value}) before the first array',
    "log.deferred": (
        "`losses.append(loss)` instead of `float(loss)`, and read the list every hundredth step"
    ),
    "model.compile": "jax.jit around the whole step, so that one call launches all of its kernels",
    "step.compile": "@jax.jit above the function that takes the gradients",
}
FIXES: Final[dict[str, str]] = {"bucket-lengths": "with a mask in the loss"}
