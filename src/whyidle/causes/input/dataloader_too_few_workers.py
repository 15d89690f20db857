"""The DataLoader's workers do not keep up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import BUSY_CORE
from whyidle.analysis.input.batch_waits import BatchWaits, find_batch_waits, waited_for_worker
from whyidle.analysis.input.sample_work import work_of_workers
from whyidle.analysis.input.worker_capacity import most_workers
from whyidle.analysis.steps.forecast import STALL_ERROR, WORKERS, predict_removal
from whyidle.causes.input._sample_evidence import (
    describe_work,
    describe_worker_samples,
    line_evidence,
    predict_without_worker_code,
)
from whyidle.causes.input._worker_evidence import wait_evidence, workers_of
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.diagnosis import Evidence
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InputFacts
from whyidle.model.roles import Role

ONE_OFF = 0.8
"""a call with a larger share of all waiting is a start or an exception"""


@cause(
    "The DataLoader's workers do not keep up",
    bucket="input",
    needs=("device_time", "loader_marks", "steady_steps"),
    watched=("device_marks", "loader_marks", "steady_steps"),
    min_steps=3,
)
def dataloader_too_few_workers(facts: Facts) -> Proof | None:
    """What it means
    -------------
    The DataLoader's worker processes make batches more slowly than the GPU consumes them.

    Why it costs
    ------------
    The GPU uses up the queue of ready batches and then waits for the workers again and again.

    How it is detected
    ------------------
    With recorded workers: the probe measures the time ``s`` and the CPU time ``s_cpu`` that a batch
    takes. The report names this cause if workers mostly compute and the cores have room for more of
    them. With ``T`` for the step and ``W`` for its wait, the prediction is ``T^(n) = max(T - W,
    s/n, (s_cpu + host) / cores)``. The lower bound adds one worker, the upper bound uses the best
    number. The expected gain also uses the best number, but each busy core counts as 0.83 cores.

    Without recorded workers: in several steps, ``_MultiProcessingDataLoaderIter.__next__`` takes
    longer than any measured hand-off of a batch of that size, or three times as long as quick calls
    of the recording, while the device is idle. If long waits recur every n-th step, there are n
    workers; otherwise eight are assumed. The lower bound adds one worker (``1/(n+1)`` of the step),
    less the prediction error of 4 %. The upper bound is no wait.

    What looks alike
    ----------------
    A short wait in every step is the hand-off of a ready batch, which more workers do not shorten.
    One long wait is the start of the workers. From the training process, workers that wait for
    storage or share too few cores look the same.

    What to do
    ----------
    Raise ``num_workers`` until the wait is gone or all cores of this process are in use.

    References
    ----------
    PyTorch Lightning, "Speed up model training: DataLoaders"; Mohan et al., VLDB 2021.
    """
    if facts.workers.is_known:
        return _prove_by_workers(facts)
    calls = find_batch_waits(facts, Role.BATCH_FROM_WORKERS)
    if not len(calls):
        return None
    waits = np.where(waited_for_worker(facts, calls), calls.exposed, 0.0)
    blocked = float(waits.sum()) / facts.scope_s
    if blocked < LEAST_SHARE or waits.max() > ONE_OFF * waits.sum():
        return None
    workers = round_length(waits)
    now = workers or WORKERS[1]
    low = max(0.0, 1.0 - max(1.0 - blocked, now / (now + 1)) * (1.0 + STALL_ERROR))
    high = float(calls.exposed.sum()) / facts.scope_s
    return Proof(
        headline="The DataLoader's workers do not keep up: "
        f"{format_duration(blocked * facts.step_s)} of waiting per step",
        predicted=predict_removal(low, high, "P1: one more worker up to no wait"),
        evidence=_worker_evidence(calls, waits, blocked, workers),
        confidence=0.85,
        where=tuple(
            place
            for place in (
                *facts.workers.costliest_places,
                facts.places.place_of(int(calls.rows[0])),
            )
            if place
        ),
        facts=InputFacts(workers=_sufficient_workers(blocked, workers), was=workers),
    )


def _prove_by_workers(facts: Facts) -> Proof | None:
    workers = workers_of(facts, "work")
    if workers is None or workers.best_workers <= workers.count:
        return None
    one = workers.remaining_share(workers.predict_stall(workers.count + 1, worth=BUSY_CORE[0]))
    usual = workers.remaining_share(workers.predict_stall(workers.best_workers, worth=BUSY_CORE[1]))
    best = workers.remaining_share(workers.predict_stall(workers.best_workers))
    low = max(0.0, workers.waiting_share - one - STALL_ERROR)
    high = max(low, workers.waiting_share - best)
    own = work_of_workers(facts)
    lines = own.places[:3] if own else workers.costliest_places
    return Proof(
        headline=f"{workers.count} DataLoader worker{'s do' if workers.count > 1 else ' does'} not "
        f"keep up: {format_duration(workers.waiting_share * facts.step_s)} of waiting per step"
        f"{describe_work(own, 'their time')}",
        predicted=predict_removal(
            low, high, f"P1: {workers.best_workers} workers", workers.waiting_share - usual
        ),
        evidence=(*wait_evidence(workers, "cpu", "delay"), *line_evidence(facts, own)),
        confidence=0.9,
        where=(*lines, *workers.places_of("asked")),
        facts=InputFacts(
            workers=workers.best_workers,
            was=workers.count,
            bound=workers.loads_bound,
            waits=workers.waits_for_storage,
            most_workers=most_workers(facts, workers.count, waits=workers.waits_for_storage),
            **describe_worker_samples(facts, own),
        ),
        removal=predict_without_worker_code(facts, own),
    )


def _sufficient_workers(blocked: float, workers: int | None) -> int | None:
    if workers is None:
        return None
    return max(workers + 1, int(np.ceil(workers / max(1.0 - blocked, 1e-3))))


def round_length(waits: NDArray[np.float64]) -> int | None:
    """The period of regular long waits, or None. There must be three. ``waits`` are seconds, in
    order of the calls."""
    peaks = np.flatnonzero(waits > 0.5 * waits.max(initial=0.0))
    distance = np.diff(peaks)
    if len(distance) < 2 or distance.min() != distance.max() or distance[0] < 2:
        return None
    return int(distance[0])


def _worker_evidence(
    calls: BatchWaits, waits: NDArray[np.float64], blocked: float, workers: int | None
) -> tuple[Evidence, ...]:
    late = int((waits > 0).sum())
    evidence = [
        make_evidence("waiting for workers, share of step", blocked, "ratio"),
        make_evidence("batches that were not ready", late, None, samples=len(calls)),
        make_evidence("longest wait", float(calls.durations_s.max()), "s", source="annotation"),
    ]
    if workers:
        evidence.append(make_evidence("steps between long waits, hence workers", workers, None))
    return tuple(evidence)
