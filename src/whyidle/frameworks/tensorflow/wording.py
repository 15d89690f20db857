"""How users of TensorFlow and Keras write knobs and fixes by hand."""

from __future__ import annotations

from typing import Final

BY_HAND: Final[dict[str, str]] = {
    "model.compile": "tf.function(jit_compile=True) around the step, or compile(jit_compile=True)",
    "autocast.dtype": "keras.mixed_precision.set_global_policy('mixed_{text}')",
    "autocast.grad_scaler": "a keras.mixed_precision.LossScaleOptimizer in loops of your own",
    "loader.num_workers": "dataset.map(..., num_parallel_calls={value}), or PyDataset(workers=...)",
    "loader.prefetch_factor": "dataset.prefetch({value})",
    "iterator.ahead": "a thread that keeps a queue.Queue({value}) of batches full",
    "keras.run_eagerly": "model.compile(..., run_eagerly={value})",
    "keras.steps_per_execution": "model.compile(..., steps_per_execution={value})",
    "keras.train_on_batch": "Keras 3.9 or later, which traces train_on_batch once",
    "keras.workers": "the PyDataset with super().__init__(workers={value})",
    "step.compile": "@tf.function above the function that takes the gradients",
    "tf.functions_eager": "tf.config.run_functions_eagerly({value})",
    "tf.reduce_retracing": "@tf.function(reduce_retracing={value})",
    "tfdata.cache": ".cache() behind the stage at {text}",
    "tfdata.deterministic": (
        "options = tf.data.Options(); options.deterministic = {value}; dataset = "
        "dataset.with_options(options)"
    ),
    "tfdata.interleave_calls": "dataset.interleave(..., num_parallel_calls={value})",
    "tfdata.map_calls": "dataset.map(..., num_parallel_calls={value})",
    "tfdata.pool": (
        "options = tf.data.Options(); options.threading.private_threadpool_size = {value}; dataset "
        "= dataset.with_options(options)"
    ),
    "copy.non_blocking": "dataset.prefetch(tf.data.AUTOTUNE)",
}
FIXES: Final[dict[str, str]] = {
    "fewer-callbacks": "`if batch % 100 == 0:` in on_train_batch_end, or on_epoch_end",
    "larger-batch": "dataset.batch(...), or fit(batch_size=...)",
    "overlap-exchange": (
        "MirroredStrategy(cross_device_ops=tf.distribute.NcclAllReduce(num_packs=2)): time 1, 2, 4 "
        "packs and, without NVLink, ReductionToOneDevice(); on several workers "
        "communication_options=CommunicationOptions(bytes_per_pack=50 * 1024 * 1024)"
    ),
    "report-rarely": "`if step % 100 == 0:` around it; TensorBoard(update_freq=100)",
    "faster-pipeline": (
        "map(..., num_parallel_calls=tf.data.AUTOTUNE), interleave, cache(), "
        "prefetch(tf.data.AUTOTUNE)"
    ),
}
PATCHED: Final[dict[str, str]] = {}
APPLIED: Final[dict[str, str]] = {
    "autocast.dtype": "autocast",
    "autocast.grad_scaler": "autocast",
    "iterator.ahead": "iterator",
    "keras.run_eagerly": "keras",
    "keras.steps_per_execution": "keras",
    "keras.train_on_batch": "keras",
    "keras.workers": "keras",
    "model.compile": "model",
    "step.compile": "step",
    "tf.functions_eager": "tf",
    "tf.reduce_retracing": "tf",
    "tfdata.cache": "tfdata",
    "tfdata.deterministic": "tfdata",
    "tfdata.interleave_calls": "tfdata",
    "tfdata.map_calls": "tfdata",
    "tfdata.pool": "tfdata",
}
"""knobs that are set in a running process -> the module in ``probe/knobs`` that sets them"""
