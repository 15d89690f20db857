"""How users of JAX write knobs and fixes by hand."""

from __future__ import annotations

from typing import Final

BY_HAND: Final[dict[str, str]] = {
    "autocast.dtype": "parameters and inputs of the forward pass as jax.numpy.{text}",
    "collate.length_buckets": "lengths rounded up to the next of the {text}, with a mask",
    "compile.cache": "export JAX_COMPILATION_CACHE_DIR=FOLDER, one that outlives the job",
    "copy.non_blocking": "jax.device_put(batch) one step ahead",
    "iterator.ahead": "a thread that keeps a queue.Queue({value}) of batches full",
    "jax.check_tracer_leaks": 'jax.config.update("jax_check_tracer_leaks", {value})',
    "jax.compilation_cache": (
        'jax.config.update("jax_compilation_cache_dir", FOLDER) and '
        'jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)'
    ),
    "jax.debug_nans": 'jax.config.update("jax_debug_nans", {value})',
    "jax.disable_jit": 'jax.config.update("jax_disable_jit", {value})',
    "keras.workers": "the PyDataset with super().__init__(workers={value})",
    "jax.x64": 'jax.config.update("jax_enable_x64", {value}) before the first array',
    "loader.num_workers": "grain or tf.data with {value} workers for reading and decoding",
    "loader.prefetch_factor": "flax.jax_utils.prefetch_to_device(batches, size={value})",
    "loader.batch_size_times": "a batch size {value} times as large",
    "log.deferred": (
        "`losses.append(loss)` instead of `float(loss)`, and read the list every hundredth step"
    ),
    "model.compile": "jax.jit around the whole step, so that one call launches all of its kernels",
    "step.compile": "@jax.jit above the function that takes the gradients",
}
FIXES: Final[dict[str, str]] = {
    "bucket-lengths": "with a mask in the loss",
}
PATCHED: Final[dict[str, str]] = {}
APPLIED: Final[dict[str, str]] = dict.fromkeys(
    (
        "jax.check_tracer_leaks",
        "jax.compilation_cache",
        "jax.debug_nans",
        "jax.disable_jit",
        "jax.x64",
    ),
    "jax",
) | {"iterator.ahead": "iterator", "keras.workers": "keras", "step.compile": "step"}
"""knobs that are set in a running process -> the module in ``probe/knobs`` that sets them"""
