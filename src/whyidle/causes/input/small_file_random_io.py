"""Many small files are read one by one."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.causes.input._worker_evidence import (
    SOURCE,
    local_read_shares,
    prove_storage_wait,
    wait_evidence,
    workers_of,
)
from whyidle.model.cause import Proof, cause
from whyidle.model.number_text import format_duration

REMOVED = (0.3, 0.8, 1.0)
"""share of the waiting that sequential reads of shards remove: careful, hopeful, and expected where
bytes were not counted; the lower bound is low because fast local disks gain little"""
SEQUENTIAL = 100e6
"""bytes per second of sequential reads over a gigabit network or from a hard disk, for all workers
together"""


@cause(
    "Many small files are read one by one",
    bucket="input",
    needs=("device_time", "loader_marks", "worker_batches", "steps"),
    watched=("device_marks", "loader_marks", "worker_batches", "steps"),
)
def small_file_random_io(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Every sample is a separate file, so small that finding and opening it costs more than reading
    its bytes.

    Why it costs
    ------------
    Each file pays the storage's latency several times: to look it up, to open it and to read it.

    How it is detected
    ------------------
    Workers mostly wait for storage (as in ``remote-storage-fetch-stall``), open at least one file
    for every second sample, and read at most 256 KiB per opened file.

    With sequential reads, the bytes are expected to take what a gigabit network takes for them,
    with no further waiting for files or opening of them.

    What looks alike
    ----------------
    Large files on slow storage. On a fast local disk small files hardly wait, and are not reported.

    What to do
    ----------
    Pack samples into shards (tar, Arrow, RecordIO) and read them sequentially with a shuffle
    buffer; or copy the files to a local disk, or use more workers.

    References
    ----------
    roboflow/rf-detr issue 1396 (2.0 times with 4 workers on object storage, nothing on NVMe).
    """
    workers = workers_of(facts, "small files")
    if workers is None:
        return None
    return prove_storage_wait(
        workers,
        f"Loader workers wait {format_duration(workers.storage_wait)} per batch for small files",
        removed=local_read_shares(workers, SEQUENTIAL, REMOVED[0])
        if workers.mean_of("chars")
        else REMOVED,
        opens=workers.mean_of("opens"),
        method="P1: sequential reads",
        evidence=(
            *wait_evidence(workers, "cpu", "delay", "opens", "chars"),
            make_evidence("of it, waiting for storage", workers.storage_wait, "s", source=SOURCE),
        ),
    )
