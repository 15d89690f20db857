"""Loader workers wait for storage or the network."""

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

CAREFUL = 0.5
"""share of the waiting that a copy on a local disk or in memory removes at least"""
LOCAL = 1e9
"""bytes per second of such a copy, for all workers together: between a SATA disk (0.5e9) and an
NVMe one (2e9 and more), and less than memory gives"""


@cause(
    "Loader workers wait for storage or the network",
    bucket="input",
    needs=("device_time", "loader_marks", "worker_batches", "steps"),
    watched=("device_marks", "loader_marks", "worker_batches", "steps"),
)
def remote_storage_fetch_stall(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Workers spend most of the time of a batch neither computing nor waiting for a core: they wait
    for a read, a request or a sleep to end.

    Why it costs
    ------------
    Each worker has one request under way at a time, so that many samples per second as workers
    divided by the latency is all there is.

    How it is detected
    ------------------
    Of the time of a batch, the thread's CPU time, the time it waited for a core (the kernel's
    run-queue delay) and the CPU of other threads are taken away; at least half is left. Expected
    of data at hand is that no request waits any more, and the bytes take what a local disk needs
    for them (1 GB/s for all workers together). More workers wait for more at a time: what they
    bring is told beside it, and is nothing where the storage is at its limit.

    What looks alike
    ----------------
    Many small files (``small-file-random-io``); data that is read again in every epoch because it
    does not stay in memory (``page-cache-thrash``); a lock that workers wait for. Other jobs on
    the machine make workers wait for cores, which is not counted.

    What to do
    ----------
    Copy the data to a local disk before or during training, read ahead, ask for several samples
    at once, or have more workers: those that only wait need no core.

    References
    ----------
    Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021.
    """
    workers = workers_of(facts, "storage")
    if workers is None:
        return None
    return for_storage(
        workers,
        f"Loader workers spend {workers.storage_wait / workers.batch_time:.0%} of their time "
        "waiting "
        "for storage or the network",
        removed=at_hand(workers, LOCAL, CAREFUL),
        method="P1: samples at hand",
        evidence=(
            *wait_evidence(workers, "cpu", "delay", "chars", "read"),
            make_evidence("of it waiting, not working", workers.storage_wait, "s", source=SOURCE),
        ),
    )
