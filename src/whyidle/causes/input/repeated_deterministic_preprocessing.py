"""The same samples are preprocessed identically in every epoch."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.forecast import predict_stalls
from whyidle.causes.input._worker_evidence import CACHED_COST, SOURCE, wait_evidence, workers_of
from whyidle.model.cause import Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InputFacts


@cause(
    "The same work is done on the same samples in every epoch",
    bucket="input",
    needs=("device_time", "loader_marks", "worker_batches", "row_sums", "steps"),
    watched=("device_marks", "loader_marks", "worker_batches", "row_sums", "steps"),
)
def repeated_deterministic_preprocessing(facts: Facts) -> Proof | None:
    """What it means
    -------------
    Loader workers decode, resize, parse or tokenise each sample the same way in every epoch.

    Why it costs
    ------------
    Every epoch repeats work that is needed once, and the workers do not keep up.

    How it is detected
    ------------------
    The step waits for workers that compute, not for storage or hand-off. The probe takes checksums
    of some samples. At least eight samples were made in several epochs, and each was the same every
    time. A cached sample is expected to cost a tenth of the CPU time, at most half.

    What looks alike
    ----------------
    Random augmentation changes a sample each time, so only the work before it could be cached. Runs
    with too few epochs, and batches whose rows cannot be told apart, are not judged.

    What to do
    ----------
    Cache the result in memory, as a memory-mapped array, or as a preprocessed copy of the dataset.
    Preprocessed data can be larger, and so slower to read. ``whyidle prepare`` writes such a copy
    and first reports its size and gain.

    References
    ----------
    Isenko et al., "Where Is My Training Bottleneck?" (PRESTO), SIGMOD 2022; Graur et al.,
    "Cachew", USENIX ATC 2022.
    """
    workers = workers_of(facts, "work")
    if workers is None or not workers.same_again:
        return None
    same, again = workers.repeated_samples
    gains = []
    for kept in CACHED_COST:
        saved = (1.0 - kept) * workers.mean_of("cpu")
        made = max(workers.batch_time + workers.pickle_time - saved, 0.0)
        work = max(workers.mean_of("process_cpu") - saved, 0.0)
        stall = workers.predict_stall(workers.count, made, work)
        gains.append(workers.waiting_share - workers.remaining_share(stall))
    return Proof(
        headline=f"Workers spend {format_duration(workers.mean_of('cpu'))} of CPU per batch to "
        "repeat the work of the previous epoch",
        low=min(gains),
        high=workers.waiting_share,
        predicted=predict_stalls((gains[0], gains[1], gains[2]), "P1: cached samples"),
        evidence=(
            *wait_evidence(workers, "cpu", "delay"),
            make_evidence("repeated samples", again, None, source=SOURCE),
            make_evidence("of them, with the same result", same, None, source=SOURCE),
        ),
        confidence=0.9,
        where=workers.costliest_places,
        facts=InputFacts(epoch_bytes=workers.epoch_bytes),
    )
