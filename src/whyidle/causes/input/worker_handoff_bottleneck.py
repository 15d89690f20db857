"""Passing batches to the training process costs more than making them."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import BUSY_CORE
from whyidle.analysis.host.cpu_affinity import kept_waiting
from whyidle.analysis.input.batch_waits import HANDOFF_BYTES_PER_S, HANDOFF_CAREFUL_BYTES_PER_S
from whyidle.analysis.input.loader_workers import LoaderWorkers
from whyidle.analysis.input.sample_work import work_of_workers
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.input._sample_evidence import line_evidence
from whyidle.causes.input._worker_evidence import SOURCE, wait_evidence, workers_of
from whyidle.model.cause import MOSTLY, Proof, cause
from whyidle.model.diagnosis import Predicted
from whyidle.model.number_text import format_bytes, format_duration
from whyidle.model.proof_facts import InputFacts

LEFT = (0.5, 0.1, 0.0)
"""share of packing and unpacking that remains (low, expected, high gain)"""
FETCHED = (1.0, 1.0, 0.0)
"""share of taking a ready batch, beyond unpacking, that remains. The training process requests each
tensor's memory from the worker in a few messages (PyTorch's ``file_descriptor`` strategy). A thread
of the worker answers when it gets the interpreter's lock, whatever the batch contains"""


@cause(
    "Passing on batches from workers takes too long",
    bucket="input",
    needs=("device_time", "loader_marks", "worker_batches", "steps"),
    watched=("device_marks", "loader_marks", "worker_batches", "steps"),
)
def worker_handoff_bottleneck(facts: Facts) -> Proof | None:
    """What it means
    -------------
    Loader workers have their batches ready, but packing them (pickle, shared memory) and unpacking
    them in the training process takes longer than making them.

    Why it costs
    ------------
    The training process unpacks batches one by one, so more workers do not help.

    How it is detected
    ------------------
    Packing and unpacking: the probe measures both. They account for at least half of the wait that
    the workers' figures explain, and for half of the cost of a batch. The expected gain assumes a
    tenth of this cost, as for a few contiguous tensors, and the lower bound half of it. The
    exchange with the worker about its memory remains.

    Ready batches: taking batches that are already complete holds up the loop for at least 15 % of
    the step. Batches have more than four tensors, or unpacking takes at least half of this time.
    Half of it is the expected gain; the lower bound is no gain.

    Large tensors: workers of one thread wait for cores, and packing takes more CPU time than making
    batches, because tensors are copied into shared memory. The training thread then waits for a
    core, too. The expected gain assumes half of the bytes. The report also predicts a training
    process that reads batches itself and copies them once.

    Needless workers: whyidle predicts the step for each number of workers, including none. Without
    workers, the training thread makes each batch. With workers, it takes each batch, and waits if
    they or the cores are too slow. The report names this cause if the step is shortest without
    workers. Worker starts and waits for a core count as cost.

    What looks alike
    ----------------
    Workers that take long to make batches are ``heavy-cpu-transform`` or
    ``dataloader-too-few-workers``. A short wait in every step is the normal hand-off.

    What to do
    ----------
    Return few contiguous tensors instead of many Python objects: collate in the worker, convert
    lists and dictionaries to arrays, store images as uint8. If a batch of a few tensors is made
    faster than it is taken, use no workers.

    References
    ----------
    roboflow/rf-detr issue 1396; pytorch/pytorch issue 81412; PyTorch, "Multiprocessing best
    practices".
    """
    workers = workers_of(facts, "handoff")
    if workers is None:
        return None
    if workers.mostly_packs:
        return _prove_packing(facts, workers)
    if workers.better_without and workers.is_lean:
        return _prove_needless(facts, workers)
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
        facts=_without_workers(facts, workers) if workers.better_without else InputFacts(),
    )


def _without_workers(facts: Facts, workers: LoaderWorkers) -> InputFacts:
    """Predictions for a loader whose batches the training process should make itself. Lower bound:
    it waits for cores as much as it and its workers do now. Upper bound: it never waits."""
    steps = [workers.predict_step(0, free=free) for free in (False, True)]
    gains = [max(0.0, 1.0 - step / facts.step_s) for step in steps]
    predicted = from_gains((gains[0], sum(gains) / 2, gains[1]), "P1: no workers, one model")
    return InputFacts(workers=0, was=workers.count, by_workers=predicted, lean=workers.is_lean)


def _prove_needless(facts: Facts, workers: LoaderWorkers) -> Proof:
    """Prove that taking a batch of a few tensors costs more than making it. The cost includes
    worker starts and the training thread's waits for a core, which loading inline avoids."""
    known = _without_workers(facts, workers)
    predicted = known.by_workers or from_gains((0.0, 0.0, 0.0), "")
    making = workers.batch_time - workers.mean_of("delay")
    return Proof(
        headline=f"{workers.count} workers cost more than they save: a batch takes "
        f"{format_duration(making)} to make, {format_duration(workers.taking_time)} to take over",
        predicted=predicted,
        evidence=(
            *wait_evidence(workers, "cpu", "delay"),
            *(
                make_evidence(f"predicted step with {n} workers", workers.predict_step(n), "s")
                for n in sorted({0, 1, workers.count, workers.best_workers})
            ),
        ),
        confidence=0.85,
        where=workers.places_of("asked", "making"),
        facts=known,
    )


def _prove_packing(facts: Facts, workers: LoaderWorkers) -> Proof:
    """Prove that packing uses up the cores, so the training thread waits for a core or a batch."""
    waits = min(kept_waiting(facts) + workers.waiting_share, 1.0)
    work = max(workers.mean_of("process_cpu"), workers.mean_of("cpu"))
    own, size = work_of_workers(facts), facts.timeline.loading.batch_bytes
    parts = sum(facts.timeline.loading.types.values())
    double = facts.timeline.loading.types.get("float64", 0) / max(parts, 1)
    sent = f" of {format_bytes(size)}" if size else ""
    return Proof(
        headline=f"Workers pass on batches{sent}: packing one takes "
        f"{format_duration(workers.pickle_time)} of CPU, making it {format_duration(work)}",
        low=0.0,
        high=waits,
        predicted=from_gains(_predict_fewer_bytes(workers, waits), "half of the bytes to pass on"),
        evidence=(
            *wait_evidence(workers, "cpu", "delay", "collate"),
            make_evidence("packing a batch, CPU", workers.pickle_time, "s", source=SOURCE),
            make_evidence("of them as float64", double, "ratio", source="tensors"),
            make_evidence("training thread waits for a core", kept_waiting(facts), "ratio"),
            *line_evidence(facts, own),
        ),
        confidence=0.85,
        where=own.places[:3] if own else workers.places_of("making"),
        facts=InputFacts(
            was=workers.count,
            double=double >= MOSTLY,
            in_memory=workers.reads_nothing,
            line=own.describe_line() if own else "",
            removed=_predict_lookup(facts, workers, waits),
        ),
        bucket="compute" if kept_waiting(facts) > workers.waiting_share else "input",
        removal=_predict_lookup(facts, workers, waits),
    )


def _predict_fewer_bytes(workers: LoaderWorkers, waits: float) -> tuple[float, float, float]:
    """Gains if half of the bytes are passed on, so that the cores have less work."""
    loading = workers.mean_of("cpu") + workers.pickle_time
    saved = workers.pickle_time / 2 / max(loading, 1e-9)
    return 0.0, waits * saved, waits


def _predict_lookup(facts: Facts, workers: LoaderWorkers, waits: float) -> Predicted:
    """The gain if the training process reads batches itself, without workers. No thread waits,
    bytes are copied once, and float64 need not be converted to float32 for the model."""
    size = (facts.timeline.loading.batch_bytes or 0) * workers.per_step
    double = facts.timeline.loading.types.get("float64", 0) * workers.per_step
    careful, likely = (
        1.0 / rate / facts.step_s for rate in (HANDOFF_CAREFUL_BYTES_PER_S, HANDOFF_BYTES_PER_S)
    )
    copied = size - double / 2
    gains = (
        max(0.0, waits - copied * careful),
        max(0.0, min(waits + (double - copied) * likely, 1.0)),
        min(waits + double * careful, 1.0),
    )
    return from_gains(gains, "no workers, and a batch copied once")


def _predict_smaller_batches(workers: LoaderWorkers, own: float) -> list[float]:
    """Gains if half, a tenth or nothing of packing and unpacking remains."""
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
