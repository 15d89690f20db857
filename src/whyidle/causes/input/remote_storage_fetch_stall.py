"""Loader workers wait for storage or the network."""

from __future__ import annotations

from whyidle.analysis.evidence import measured
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.causes.input._waiting import SOURCE, evidence, workers_of
from whyidle.model.cause import Proof, cause

REMOVED = (0.5, 0.9, 1.0)
"""share of the waiting that a copy on a local disk or in memory removes: careful, expected,
hopeful"""


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
    is that nine tenths of it vanish with the data at hand.

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
    gains = [
        workers.waiting - workers.remaining(workers.stall(workers.count, made))
        for made in (workers.wall + workers.pickle - share * workers.storage for share in REMOVED)
    ]
    return Proof(
        headline=f"Loader workers spend {workers.storage / workers.wall:.0%} of their time waiting "
        "for storage or the network",
        low=min(gains),
        high=workers.waiting,
        predicted=from_gains((gains[0], gains[1], gains[2]), "P1: samples at hand"),
        evidence=(
            *evidence(workers, "cpu", "delay", "chars", "read"),
            measured("of it waiting, not working", workers.storage, "s", source=SOURCE),
        ),
        confidence=0.85,
        where=workers.where,
        facts={
            "workers": workers.best if workers.best > workers.count else None,
            "was": workers.count,
        },
    )
