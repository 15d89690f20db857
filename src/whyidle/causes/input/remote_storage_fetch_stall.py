"""Loader workers wait for storage or the network."""

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
from whyidle.model.cause import MOSTLY, Proof, cause

CAREFUL = 0.5
"""lower bound of the share of the wait that a copy on a local disk or in memory removes"""
LOCAL = 1e9
"""bytes per second of such a copy for all workers: between a SATA disk (0.5e9) and an NVMe disk
(2e9 and more), and less than memory"""
CACHED = (0.2, 0.6, 1.0)
"""share of the wait that caching in memory removes; how much of the data fits is unknown"""


@cause(
    "Loader workers wait for storage or the network",
    bucket="input",
    needs=("device_time", "loader_marks", "worker_batches", "steps"),
    watched=("device_marks", "loader_marks", "worker_batches", "steps"),
)
def remote_storage_fetch_stall(facts: Facts) -> Proof | None:
    """What it means
    -------------
    Workers spend most of the time per batch neither computing nor waiting for a core. They wait for
    a read, a request or a sleep to end.

    Why it costs
    ------------
    Each worker has one request in flight, so latency limits the throughput.

    How it is detected
    ------------------
    The probe reads the CPU time of a worker's threads and the loading thread's wait for a core (the
    kernel's run-queue delay). The report names this cause if at least half of the time per batch is
    neither. The expected gain assumes local data: no request waits, and the bytes arrive at 1 GB/s
    for all workers together. The gain of more workers, whose waits overlap, is predicted
    separately. Its lower bound is zero, because the storage may be at its limit.

    If at least half of the data that workers read in later epochs comes from a local disk again,
    the kernel has evicted it from memory. Caching is then expected to remove 60 % of the wait.

    What looks alike
    ----------------
    Many small files are ``small-file-random-io``. Workers may also wait for a lock. Waits for cores
    are not counted. The first epoch always reads from disk.

    What to do
    ----------
    Copy the data to a local disk before or during training, read ahead, request several samples at
    once, or use more workers: those that only wait need no core. If data is read from disk again,
    keep a fixed part of it in memory, store it in fewer bytes, or give the job more memory.

    References
    ----------
    Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021.
    """
    workers = workers_of(facts, "storage")
    if workers is None:
        return None
    again = workers.reread_share
    headline = f"Loader workers wait {workers.storage_wait / workers.batch_time:.0%} of their time "
    headline += "for storage or the network"
    if again >= MOSTLY:
        headline = f"{again:.0%} of what workers read in later epochs comes from disk again"
    return prove_storage_wait(
        workers,
        headline,
        removed=CACHED if again >= MOSTLY else local_read_shares(workers, LOCAL, CAREFUL),
        method="P1: local samples",
        evidence=(
            *wait_evidence(workers, "cpu", "delay", "chars", "read"),
            make_evidence("of it, waiting for storage", workers.storage_wait, "s", source=SOURCE),
            make_evidence("read again from disk", again, "ratio", source=SOURCE),
        ),
    )
