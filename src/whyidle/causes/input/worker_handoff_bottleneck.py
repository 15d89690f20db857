"""Passing batches to the training process costs more than making them."""

from __future__ import annotations

from whyidle.analysis.core_capacity import BUSY_CORE
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.loader_workers import LoaderWorkers
from whyidle.causes.input._worker_evidence import SOURCE, wait_evidence, workers_of
from whyidle.model.cause import Proof, cause
from whyidle.model.number_text import format_duration

LEFT = (0.5, 0.1, 0.0)
"""share of packing and unpacking that remains: careful, expected, hopeful"""
FETCHED = (1.0, 1.0, 0.0)
"""share of taking a ready batch, beyond unpacking it, that remains. The training process requests a
tensor's memory from the worker in a few messages (PyTorch's ``file_descriptor`` strategy), which a
thread there answers when it gets the interpreter lock; this costs the same for few tensors as for
many objects"""


@cause(
    "Passing batches from workers takes too long",
    bucket="input",
    needs=("device_time", "loader_marks", "worker_batches", "steps"),
    watched=("device_marks", "loader_marks", "worker_batches", "steps"),
)
def worker_handoff_bottleneck(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Loader workers have their batches ready, but packing them (pickle, shared memory) and unpacking
    them in the training process takes longer than making them.

    Why it costs
    ------------
    Unpacking happens in the training process, one batch after the other, and packing blocks the
    worker: more workers do not help.

    How it is detected
    ------------------
    Time inside pickling, measured in the workers, and inside unpickling, measured in the training
    process, accounts for at least half of the waiting that the workers' figures explain, and for
    half of the cost of a batch. Expected is packing and unpacking at a tenth of its cost, as for a
    few contiguous tensors; careful is half of it. What taking a ready batch takes beyond that is
    the exchange with the worker about its memory, and is expected to remain. The step is then as
    long as the workers take to make its batches, or as all the work takes on the cores, if that is
    longer than the rest of the step and that exchange.

    Or the batch was ready at every request, and taking it still blocks the loop for at least 15 %
    of the step, beyond what workers that are slower than the loop need to make it, and it is more
    than a few tensors, or unpacking takes most of that time: then half of it is expected, and
    nothing at the careful end, because the batches may be lean already.

    What looks alike
    ----------------
    Workers that take long to make a batch. A short wait in every step is the normal hand-off.

    What to do
    ----------
    Return few contiguous tensors instead of many Python objects: collate in the worker, convert
    lists and dictionaries to arrays, store images as uint8.

    References
    ----------
    roboflow/rf-detr issue 1396; pytorch/pytorch issue 81412; PyTorch, "Multiprocessing best
    practices".
    """
    workers = workers_of(facts, "handoff")
    if workers is None:
        return None
    own = max(workers.batch_time - workers.other_threads_cpu, workers.mean_of("cpu"))
    gains, method = _predict_smaller_batches(workers, own), "P1: leaner batches"
    taking = workers.ready_share * facts.step_s / max(workers.per_step, 1e-9)
    handing = workers.pickle_time + max(workers.unpickle_time, taking)
    if not workers.costly_handoff:
        gains = [0.0, workers.ready_share / 2, workers.ready_share]
        method = "half of the time to take ready batches"
    return Proof(
        headline=f"Passing on a batch takes {format_duration(handing)}, making it "
        f"{format_duration(own)}",
        low=min(gains),
        high=workers.waiting_share,
        predicted=from_gains((min(gains), sorted(gains)[1], max(gains)), method),
        evidence=(
            *wait_evidence(workers, "cpu", "collate"),
            make_evidence("packing a batch", workers.pickle_time, "s", source=SOURCE),
            make_evidence("unpacking a batch", workers.unpickle_time, "s", source=SOURCE),
            make_evidence("taking ready batches, share of step", workers.ready_share, "ratio"),
        ),
        confidence=0.85,
        where=workers.places_of("collating", "making"),
    )


def _predict_smaller_batches(workers: LoaderWorkers, own: float) -> list[float]:
    """Gains with half, a tenth or nothing of packing and unpacking: workers then make batches, and
    the cores do all the work, as fast as they can."""
    exchange = max(
        0.0, workers.ready_share * workers.facts.step_s - workers.unpickle_time * workers.per_step
    )
    gains = []
    for left, fetched, worth in zip(LEFT, FETCHED, BUSY_CORE, strict=True):
        packing, unpacking = (
            left * workers.pickle_time,
            left * workers.unpickle_time * workers.per_step,
        )
        work = workers.mean_of("cpu") + packing
        stall = workers.predict_stall(workers.count, own + packing, work, worth=worth)
        waits = max(stall, fetched * exchange) + unpacking
        gains.append(max(0.0, workers.waiting_share - waits / workers.facts.step_s))
    return gains
