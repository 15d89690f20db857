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
"""share of the wait that sequential reads of shards remove. The lower bound is low because fast
local disks gain little. The others apply only if bytes were not counted"""
SEQUENTIAL = 100e6
"""bytes per second of sequential reads for all workers, from a gigabit network or a hard disk"""


@cause(
    "Many small files are read one by one",
    bucket="input",
    needs=("device_time", "loader_marks", "worker_batches", "steps"),
    watched=("device_marks", "loader_marks", "worker_batches", "steps"),
)
def small_file_random_io(facts: Facts) -> Proof | None:
    """What it means
    -------------
    Every sample is a separate small file, which takes longer to find and open than to read.

    Why it costs
    ------------
    Each file pays the storage's latency several times: to look it up, to open it and to read it.

    How it is detected
    ------------------
    Workers mostly wait for storage (as in ``remote-storage-fetch-stall``), open at least one file
    for every second sample, and read at most 256 KiB per file. The expected gain assumes sequential
    reads at the rate of a gigabit network, without opening files. The lower bound removes at most
    30 % of the wait, because fast local disks gain little.

    What looks alike
    ----------------
    Large files on slow storage are ``remote-storage-fetch-stall``. On a fast local disk, small
    files hardly wait and are not reported.

    What to do
    ----------
    Pack samples into shards (tar, Arrow, RecordIO) and read them sequentially with a shuffle
    buffer. Or copy the files to a local disk, or use more workers.

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
