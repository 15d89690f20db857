"""Many small files are read one by one."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.causes.input._worker_evidence import (
    SOURCE,
    at_hand,
    for_storage,
    wait_evidence,
    workers_of,
)
from whyidle.model.cause import Proof, cause
from whyidle.model.number_text import format_duration

REMOVED = (0.3, 0.8, 1.0)
"""share of the waiting that reading shards in sequence removes: careful, hopeful, and expected
where nobody counted bytes. On a fast local disk it may be little, so the careful end is low"""
SEQUENTIAL = 100e6
"""bytes per second that a gigabit network or a hard disk gives in sequence, to all workers
together: so long the same bytes take in a shard, as expected"""


@cause(
    "Many small files are read one by one",
    bucket="input",
    needs=("device_time", "loader_marks", "worker_batches", "steps"),
    watched=("device_marks", "loader_marks", "worker_batches", "steps"),
)
def small_file_random_io(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Every sample is a file of its own, small enough that opening and finding it costs more than
    reading its bytes.

    Why it costs
    ------------
    Each file pays the storage's latency, several times: to look it up, to open it and to read it.

    How it is detected
    ------------------
    Workers mostly wait for storage (as in ``remote-storage-fetch-stall``), open at least one file
    for every second sample, and read at most 256 KiB per file opened.

    Expected of sequential reads is that the bytes take what a gigabit network takes for them, and
    no file is waited for, or opened, besides.

    What looks alike
    ----------------
    Large files on slow storage. On a fast local disk small files hardly wait, and are not
    reported.

    What to do
    ----------
    Pack samples into shards (tar, Arrow, RecordIO) and read them in sequence with a shuffle
    buffer; or copy the files to a local disk, or have more workers.

    References
    ----------
    roboflow/rf-detr issue 1396 (2.0 times with 4 workers on object storage, nothing on NVMe).
    """
    workers = workers_of(facts, "small files")
    if workers is None:
        return None
    return for_storage(
        workers,
        f"Loader workers wait {format_duration(workers.storage_wait)} per batch for small files",
        removed=at_hand(workers, SEQUENTIAL, REMOVED[0]) if workers.mean_of("chars") else REMOVED,
        opens=workers.mean_of("opens"),
        method="P1: sequential reads",
        evidence=(
            *wait_evidence(workers, "cpu", "delay", "opens", "chars"),
            make_evidence("of it waiting, not working", workers.storage_wait, "s", source=SOURCE),
        ),
    )
