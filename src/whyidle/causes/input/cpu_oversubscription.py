"""Loader workers of several threads each crowd the cores."""

from __future__ import annotations

from whyidle.analysis.evidence import measured
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.causes.input._waiting import SOURCE, evidence, workers_of
from whyidle.model.cause import Proof, cause


@cause(
    "More threads than cores prepare data",
    bucket="input",
    needs=("device_time", "loader_marks", "worker_batches", "steps"),
)
def cpu_oversubscription(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Each loader worker computes with several threads, and all of them together are more than the
    cores that the job may use.

    Why it costs
    ------------
    Threads of one operator wait for each other, and spin while they do; those that wait for a
    core hold up the rest. The same work takes more CPU than with one thread per worker.

    How it is detected
    ------------------
    Workers have more than one thread for an operator, workers times threads exceed the cores
    (affinity and control group's quota), and threads beside the loading one burn CPU, or the
    loading thread waits for a core for a fifth of its time. How much CPU one thread would need is
    not known: careful is no gain, hopeful that the waiting for cores and the other threads' CPU
    both vanish.

    What looks alike
    ----------------
    Other jobs on the same machine: they make workers wait for cores too, but then each worker has
    one thread. Too much work for the cores is ``heavy-cpu-transform``.

    What to do
    ----------
    ``torch.set_num_threads(1)`` and ``cv2.setNumThreads(0)`` in a ``worker_init_fn`` (PyTorch sets
    one thread itself unless the dataset changes it), ``OMP_NUM_THREADS=1`` for other libraries,
    and no more workers than cores less one.

    References
    ----------
    transferable-samplers/transferable-samplers issue 12; Lightning-AI/pytorch-lightning pull
    request 18677.
    """
    workers = workers_of(facts, "crowd")
    if workers is None:
        return None
    free = max(workers.wall - workers.mean("delay"), workers.mean("cpu")) + workers.pickle
    stall = workers.stall(workers.count, free, workers.mean("cpu"))
    high = workers.waiting - workers.remaining(stall)
    threads = max(worker.threads for worker in workers.loading.workers)
    return Proof(
        headline=f"{workers.count} workers with {threads} threads each share "
        f"{workers.cores:.3g} cores",
        low=0.0,
        high=workers.waiting,
        predicted=from_gains((0.0, high / 2, workers.waiting), "P1: one thread per worker"),
        evidence=(
            *evidence(workers, "cpu", "delay"),
            measured("CPU of other threads per batch", workers.others, "s", source=SOURCE),
            measured("threads per worker", threads, None, source=SOURCE),
            measured("cores", workers.cores, None, source="affinity and quota"),
        ),
        confidence=0.85,
        where=workers.where,
        facts={"threads": threads},
    )
