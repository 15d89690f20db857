"""Data is read from disk again in every epoch."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.causes.input._worker_evidence import (
    SOURCE,
    prove_storage_wait,
    wait_evidence,
    workers_of,
)
from whyidle.model.cause import Proof, cause

REMOVED = (0.2, 0.6, 1.0)
"""share of the wait that caching in memory removes; how much of the data fits is unknown"""


@cause(
    "Data is read from disk again in every epoch",
    bucket="input",
    needs=("device_time", "loader_marks", "worker_batches", "steps"),
    watched=("device_marks", "loader_marks", "worker_batches", "steps"),
)
def page_cache_thrash(facts: Facts) -> Proof | None:
    """What it means
    -------------
    The kernel caches file data, but has evicted it by the next epoch. The data is larger than the
    memory available for it, or something drops the cache.

    Why it costs
    ------------
    Every epoch is as slow as the first: samples are evicted before they are needed again.

    How it is detected
    ------------------
    Workers mostly wait for storage. In the second and later epochs, at least half of the data that
    they read comes from a local disk, although the first epoch had read it. Caching is expected to
    remove 60 % of the wait (20 to 100 %, as it is unknown how much fits).

    What looks alike
    ----------------
    The first epoch always reads from disk. Network storage is ``remote-storage-fetch-stall``.

    What to do
    ----------
    Keep a fixed part of the data in memory (in the dataset, or in ``/dev/shm``), or store it in
    fewer bytes. Give the job more memory. Do not drop or bypass the cache (``O_DIRECT``).

    References
    ----------
    Mohan et al., VLDB 2021 (MinIO cache).
    """
    workers = workers_of(facts, "cache")
    if workers is None:
        return None
    return prove_storage_wait(
        workers,
        f"{workers.reread_share:.0%} of what workers read in later epochs comes from disk again",
        removed=REMOVED,
        method="P1: data cached in memory as far as it fits",
        evidence=(
            *wait_evidence(workers, "cpu", "chars", "read"),
            make_evidence("of it, waiting for storage", workers.storage_wait, "s", source=SOURCE),
            make_evidence("read again from disk", workers.reread_share, "ratio", source=SOURCE),
        ),
    )
