"""The eight buckets of device time, and the finer reasons inside them.

A *bucket* is a key of ``attribution`` in the diagnosis document. A *reason* is a finer split; every
reason belongs to exactly one bucket.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

Bucket = Literal[
    "input", "transfer", "host", "sync", "communication", "interruption", "compute", "unknown"
]
BUCKETS: Final[tuple[Bucket, ...]] = get_args(Bucket)

REASONS: Final[dict[str, tuple[Bucket, str]]] = {
    "compute": ("compute", "computing"),
    "collective": ("communication", "collective kernels without concurrent useful work"),
    "collective_call": ("communication", "host about to launch a collective, device idle"),
    "collective_wait": ("communication", "host blocked in a collective"),
    "copy": ("transfer", "host-device copies without concurrent useful work"),
    "copy_call": ("transfer", "host inside a copy call, device idle"),
    "copy_refill": ("transfer", "refilling the queue after a blocking copy"),
    "loader": ("input", "blocked on the next batch"),
    "producer": ("input", "waiting for another process or thread of the job"),
    "preprocess": ("input", "preparing data in the training process"),
    "checkpoint": ("interruption", "writing a checkpoint"),
    "evaluation": ("interruption", "evaluating"),
    "callback": ("interruption", "callbacks of a trainer, for each batch"),
    "logging": ("interruption", "logging or uploading"),
    "blocked": ("interruption", "blocked in a call: network, file, sleep"),
    "startup": ("interruption", "start-up before the first step"),
    "after": ("interruption", "process alive after the last step"),
    "gc": ("interruption", "Python's garbage collector"),
    "compile": ("interruption", "compiling, loading kernels or autotuning"),
    "allocator": ("interruption", "allocating or freeing device memory"),
    "sync_refill": ("sync", "waiting for a result, and refilling the queue after it"),
    "launch": ("host", "dispatching and launching kernels"),
    "python": ("host", "Python between kernels"),
    "locked": ("host", "training thread waiting for the interpreter lock"),
    "device_gap": ("host", "start-up of queued kernels"),
    "unseen": ("unknown", "no event on the threads that feed the device"),
    "contradiction": ("unknown", "host waiting for device work that was not recorded"),
}
"""reason -> (bucket, meaning)"""


def bucket_of(reason: str) -> Bucket:
    """The bucket a reason belongs to. Raises KeyError for an unknown reason."""
    return REASONS[reason][0]
