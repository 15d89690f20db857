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
from whyidle.model.cause import Proof, cause

CAREFUL = 0.5
"""least share of the waiting that a copy on a local disk or in memory removes"""
LOCAL = 1e9
"""bytes per second of such a copy, for all workers together: between a SATA disk (0.5e9) and an
NVMe disk (2e9 and more), and less than memory"""


@cause(
    "Loader workers wait for storage or the network",
    bucket="input",
    needs=("device_time", "loader_marks", "worker_batches", "steps"),
    watched=("device_marks", "loader_marks", "worker_batches", "steps"),
)
def remote_storage_fetch_stall(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Workers spend most of the time per batch neither computing nor waiting for a core: they wait for
    a read, a request or a sleep to end.

    Why it costs
    ------------
    Each worker has one request in flight at a time, so throughput is limited to the number of
    workers divided by the latency.

    How it is detected
    ------------------
    From the time per batch, the thread's CPU time, the time it waited for a core (the kernel's
    run-queue delay) and the CPU time of other threads are subtracted; at least half remains. With
    local data, no request is expected to wait, and the bytes take what a local disk needs for them
    (1 GB/s for all workers together). The gain of more workers, whose waits overlap, is predicted
    separately; it is zero where the storage is at its limit.

    What looks alike
    ----------------
    Many small files are ``small-file-random-io``; data that is read again in every epoch because it
    does not stay in memory is ``page-cache-thrash``; workers may also wait for a lock. Other jobs
    on the machine make workers wait for cores, which is not counted.

    What to do
    ----------
    Copy the data to a local disk before or during training, read ahead, request several samples at
    once, or use more workers: those that only wait need no core.

    References
    ----------
    Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021.
    """
    workers = workers_of(facts, "storage")
    if workers is None:
        return None
    return prove_storage_wait(
        workers,
        f"Loader workers wait {workers.storage_wait / workers.batch_time:.0%} of their time for "
        "storage or the network",
        removed=local_read_shares(workers, LOCAL, CAREFUL),
        method="P1: local samples",
        evidence=(
            *wait_evidence(workers, "cpu", "delay", "chars", "read"),
            make_evidence("of it, waiting for storage", workers.storage_wait, "s", source=SOURCE),
        ),
    )
