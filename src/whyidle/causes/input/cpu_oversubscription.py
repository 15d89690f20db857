"""More threads or worker processes than cores."""

from __future__ import annotations

import math
from dataclasses import replace

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import FULL, idle_cores, usable_cores
from whyidle.analysis.host.core_limits import find_core_limit
from whyidle.analysis.host.cpu_affinity import kept_waiting, training_cores
from whyidle.analysis.input.loader_workers import LoaderWorkers
from whyidle.analysis.lines.sampled_lines import lines_with_share
from whyidle.analysis.steps.forecast import from_gains, predict_removal
from whyidle.causes.input._worker_evidence import SOURCE, wait_evidence, workers_of
from whyidle.model.buckets import Bucket
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.proof_facts import InputFacts
from whyidle.model.timeline import HostKind

WAITED = 0.10
"""least share of its time in which the training thread waits for a core"""
EXTRA = 0.1
"""slowdown for each additional thread per core. A small network on one core took 1.6 to 2 times as
long with 8 threads as with one, 3.4 to 4.9 times with 32, and hardly longer with 2 (PyTorch 2.13,
libgomp). Threads that exchange data lose more by spinning: small convolutions on two cores took 10
times as long with 8 threads as with 2"""
SPUN = 0.9
"""largest share of the step that these threads cost, measured with the small network"""
_CPU = ("job_cpu_user_s", "job_cpu_system_s")


@cause(
    "More threads or processes than cores",
    bucket="input",
    needs=("device_time", "loader_marks", "worker_batches", "steps"),
    watched=("host_telemetry", "steps"),
)
def cpu_oversubscription(facts: Facts) -> Proof | None:
    """What it means
    -------------
    Each loader worker, or the training process itself, computes with several threads. Together they
    exceed the cores that the job may use. Or there are far more workers than cores.

    Why it costs
    ------------
    The threads of an operator wait for each other, and spin while they wait. Threads that wait for
    a core delay the others, so the same work takes more CPU time than with one thread per worker.
    With hundreds of workers, the training process gets a core as rarely as each of them.

    How it is detected
    ------------------
    Threads of workers: workers times threads per operator exceed the cores of the job (affinity and
    control group quota). Also, other threads use at least 30 % of the loading thread's CPU time, or
    the loading thread waits for a core for 20 % of its time. The lower bound is no gain, because
    the CPU time with one thread is unknown. The upper bound removes the wait for batches or, if it
    is longer, the training thread's wait for a core.

    Too many workers: batches wait for a core for at least half of their time, and there are more
    than twice as many workers as needed to keep the cores busy. One per core is enough, or more if
    most batches wait for storage. If other programs use cores, half of the gain is expected.

    Threads of a training process on the CPU: operators use more threads than there are cores, the
    job uses at least 85 % of its cores, and the training thread waits for a core for 10 % of its
    time. The expected gain is the measured cost of so many threads per core. The upper bound
    removes that wait. Spinning is not recorded, so fewer threads may gain more.

    The threads of all ranks are added up.

    What looks alike
    ----------------
    Workers of one thread each that wait for a core are ``cpu-starved-allocation`` if a limit gives
    the job only a part of the machine. Other jobs on the machine also make workers wait, but then
    each worker has one thread. Too much work for the cores is ``heavy-cpu-transform``.

    What to do
    ----------
    Call ``cv2.setNumThreads(0)`` in a ``worker_init_fn``, and ``torch.set_num_threads(1)`` if the
    dataset changes PyTorch's default of one. Set ``OMP_NUM_THREADS=1`` for other libraries. Use
    fewer workers than cores. If several of these numbers are too high, change them together.

    References
    ----------
    transferable-samplers/transferable-samplers issue 12; Lightning-AI/pytorch-lightning pull
    request 18677.
    """
    workers = workers_of(facts, "crowd") if "worker_batches" in facts.signals else None
    if workers is None:
        return _prove_own_threads(facts)
    threads = max(worker.threads for worker in workers.loading.workers)
    if threads == 1 and find_core_limit(facts) is not None:
        return None  # fewer workers have the same work on the same cores
    free = (
        max(workers.batch_time - workers.mean_of("delay"), workers.mean_of("cpu"))
        + workers.pickle_time
    )
    stall = workers.predict_stall(workers.count, free, workers.mean_of("cpu"))
    bucket: Bucket = "input"
    high = workers.waiting_share
    expected = (high - workers.remaining_share(stall)) / 2
    with_threads = f" with {threads} threads each" if threads > 1 else ""
    enough = workers.sufficient_workers if workers.is_surplus else None
    method = "one thread per worker" if threads > 1 else f"{enough} workers"
    if threads > 1 and enough is not None:
        method = f"{enough} workers, one thread each"
    own = _core_wait(facts)
    waits = kept_waiting(facts) if workers.is_surplus else own
    if waits > high:
        gain = _gain_of_free_cores(facts, workers, waits)
        high, bucket, expected = waits, "compute", gain if own else gain / 2
    return Proof(
        headline=f"{workers.count} workers{with_threads} compete for "
        f"{_format_cores(workers.cores)}",
        predicted=from_gains((0.0, min(expected, high), high), f"P1: {method}"),
        evidence=(
            *wait_evidence(workers, "cpu", "delay"),
            *([_wait_evidence(waits)] if waits > 0.0 else []),
            make_evidence("CPU of other threads", workers.other_threads_cpu, "s", source=SOURCE),
            make_evidence("threads per worker", threads, None, source=SOURCE),
            make_evidence("cores", workers.cores, None, source="affinity and quota"),
        ),
        confidence=0.85,
        where=workers.costliest_places,
        facts=replace(
            _training_threads(facts, workers), threads=threads, workers=enough, was=workers.count
        ),
        bucket=bucket,
    )


def _wait_evidence(share: float) -> Evidence:
    return make_evidence("training thread waits for a core", share, "ratio", source="/proc")


def _training_threads(facts: Facts, workers: LoaderWorkers) -> InputFacts:
    """Return how many operator threads of a CPU training process leave enough cores to the
    workers."""
    threads = facts.timeline.process.operator_threads or 0
    busy = max(1, min(math.ceil(_loading_cores(facts, workers)), workers.sufficient_workers))
    most = max(1, int(workers.cores) // max(facts.timeline.world_size or 1, 1) - busy)
    crowded = facts.on_cpu and threads > most
    return InputFacts(main=most, main_was=threads) if crowded else InputFacts()


def _loading_cores(facts: Facts, workers: LoaderWorkers) -> float:
    return workers.per_step * (workers.mean_of("cpu") + workers.pickle_time) / facts.step_s


def _core_wait(facts: Facts) -> float:
    """Share of its time in which the training thread waits for a core; 0 if some cores are free."""
    outside, cores = facts.telemetry, usable_cores(facts)
    used = (outside.summed_rate(*_CPU) if outside else None) or 0.0
    idle = idle_cores(facts)
    free = cores if idle is None else min(cores or 0.0, used + idle)
    return kept_waiting(facts) if free and used >= FULL * free else 0.0


def _gain_of_free_cores(facts: Facts, workers: LoaderWorkers, waits: float) -> float:
    """Share of the step gained if the cores only do the present work of the training process and of
    the loading threads. The training thread cannot run any shorter. Operators split their work
    evenly, so CPU time of their other threads beyond that of the training thread is spinning. Busy
    cores provide exactly the CPU time of the job."""
    own = training_cores(facts)
    if own is None:
        return waits / 2
    threads = facts.timeline.process.operator_threads
    if threads:
        own = min(own, threads * (1.0 - waits - workers.waiting_share))
    loading = _loading_cores(facts, workers)
    got = facts.telemetry.summed_rate(*_CPU) if facts.telemetry else None
    given = min(got or workers.cores, workers.cores)
    least = max(1.0 - waits - workers.waiting_share, (own + loading) / given)
    return max(0.0, 1.0 - least)


def _prove_own_threads(facts: Facts) -> Proof | None:
    threads = facts.timeline.process.operator_threads or 0
    outside, share, cores = facts.telemetry, _core_wait(facts), usable_cores(facts)
    ranks = max(facts.timeline.world_size or 1, 1)  # whose operators are assumed to equal these
    together = threads * ranks
    if outside is None or not cores or together <= cores or share < WAITED or threads < 2:
        return None
    expected = min(1.0 - 1.0 / (1.0 + EXTRA * (together / cores - 1.0)), share)
    method = "measured cost of threads per core, at most the training thread's wait for a core"
    whose = f" of {ranks} ranks" if ranks > 1 else ""
    return Proof(
        headline=f"Operators{whose} use {together} threads on {_format_cores(cores)}",
        predicted=from_gains((0.0, expected, share), method),
        removal=predict_removal(
            0.0, max(share, SPUN * facts.bucket_share("compute")), "threads that spin", expected
        ),
        evidence=(
            make_evidence("threads per operator", threads, None, source="torch.get_num_threads"),
            make_evidence("cores of the job", cores, None, source="affinity and quota"),
            make_evidence("cores in use", outside.summed_rate(*_CPU) or 0.0, None, source="/proc"),
            _wait_evidence(share),
        ),
        confidence=0.7,
        where=_setting_place(facts),
        facts=InputFacts(threads=threads, own=int(max(1, cores // ranks))),
        bucket="compute",
    )


def _setting_place(facts: Facts) -> tuple[Place, ...]:
    """The line that sets the number of threads, or else the line that computes most."""
    for name, text in facts.timeline.sources.items():
        for number, line in enumerate(text.splitlines(), 1):
            if "set_num_threads(" in line.partition("#")[0]:
                return (Place(file=name, line=number, function=None, rank=facts.rank),)
    lines = lines_with_share(facts, facts.time_of("compute"), HostKind.OP)
    return tuple(place for place, _ in lines[:1])


def _format_cores(cores: float) -> str:
    return f"{cores:.3g} core{'s' if cores != 1 else ''}"
