"""Loader workers restart in every epoch."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.worker_restarts import held_up, worker_starts
from whyidle.analysis.intervals import union_of
from whyidle.analysis.steps.forecast import predict_interruptions, predict_removal
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import WORKER_STARTS
from whyidle.model.roles import Role

LEFT = 0.1
"""share that remains: persistent workers still get new indices and fill their queues"""


@cause(
    "Loader workers restart in every epoch",
    bucket="input",
    needs=("device_time", "python_stacks", "steps"),
    watched=("device_marks", "loader_marks", "python_stacks", "steps"),
)
def worker_restart_per_epoch(facts: Facts) -> Proof | None:
    """What it means
    -------------
    Each epoch creates a new iterator of the DataLoader. It starts worker processes, which import
    the program and copy the dataset again.

    Why it costs
    ------------
    The GPU waits for their first batches, most of all with short epochs or slow starts (spawn).

    How it is detected
    ------------------
    The device is idle while the training thread is in ``DataLoader.__iter__``, and that call starts
    processes. If this is seen only once, the lower bound is no gain. The delay of the first batch
    looks like slow loading and does not count.

    If the loader was recorded, the report counts the device's idle time from the creation of each
    iterator with new workers to its first batch, less the usual time per batch. Persistent workers
    leave about a tenth of it.

    What looks alike
    ----------------
    Iterators without workers cost nothing. The first start belongs to the warm-up and is excluded.

    What to do
    ----------
    Set ``persistent_workers=True``. On Linux, where workers are forked, this often changes nothing:
    only a start with a measured cost is reported.

    References
    ----------
    PyTorch, ``torch.utils.data.DataLoader``; boreshkinai/delta-interpolator issue 3.
    """
    if len(facts.workers.restart_time):
        return _prove_by_workers(facts)
    host = facts.timeline.host
    made = facts.rows_of(Role.LOADER_START)
    made = made[np.isin(host.thread[made], facts.host.drivers)]
    processes = host.start[facts.rows_of(Role.WORKER_START)]
    windows = union_of(host.start[made], host.end[made])
    if not len(windows) or not windows.contains_times(processes).any():
        return None
    share = facts.share_of(facts.time_of("loader") & windows)
    if share < LEAST_SHARE:
        return None
    low = predict_interruptions(share, 0.5) if len(windows) > 1 else 0.0
    expected = predict_interruptions(share, LEFT)
    return Proof(
        headline="Starting loader workers holds up training for "
        f"{format_duration(windows.total / 1e9)}",
        predicted=predict_removal(
            low, share, "P9: persistent workers", expected if low else expected / 2
        ),
        evidence=(
            make_evidence("device idle while workers start, share of step", share, "ratio"),
            make_evidence(WORKER_STARTS, len(windows), None, source="stacks"),
        ),
        confidence=0.8,
        where=tuple(place for place in [facts.places.place_of(int(made[0]))] if place),
    )


def _prove_by_workers(facts: Facts) -> Proof | None:
    workers = facts.workers
    made, idle = worker_starts(workers.loading, facts.scope), facts.time_of("loader")
    count, cost = max(len(made), 1), 1e9 * workers.usual_batch_time if workers.is_known else 0.0
    share, expected = (
        held_up(workers.restart_time, idle, made, cost, left) / max(facts.scope.total, 1)
        for left in (0.0, LEFT)
    )
    if share < LEAST_SHARE or workers.loader.persistent:
        return None
    took = [w.first - w.started for w in workers.loading.workers if w.started is not None]
    start_s = float(np.median(took)) / 1e9 if took else 0.0
    low = predict_interruptions(share, 0.5) if count > 1 else 0.0
    return Proof(
        headline=f"Starting {workers.count} loader worker{'s' * (workers.count > 1)} holds up "
        "every epoch for "
        f"{format_duration(share * facts.scope_s / count)}",
        predicted=predict_removal(low, share, "P9: persistent workers", expected),
        evidence=(
            make_evidence("device idle while workers start, share of step", share, "ratio"),
            make_evidence(WORKER_STARTS, count, None, source="DataLoader"),
            make_evidence("first batch after", start_s, "s", samples=len(took), source="workers"),
        ),
        confidence=0.9,
        where=workers.places_of("asked"),
    )
