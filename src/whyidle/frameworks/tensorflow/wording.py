"""How users of TensorFlow and Keras write knobs, if not as declared, and fixes."""

from __future__ import annotations

from typing import Final

BY_HAND: Final[dict[str, str]] = {
    "model.compile": "tf.function(jit_compile=True) around the step, or compile(jit_compile=True)",
    "collate.length_buckets": "dataset.bucket_by_sequence_length with boundaries at {text}",
    "collate.pad_to": "dataset.padded_batch(...), which pads to the {text} sample",
    "autocast.dtype": "keras.mixed_precision.set_global_policy('mixed_{text}')",
    "autocast.grad_scaler": "a keras.mixed_precision.LossScaleOptimizer in loops of your own",
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
