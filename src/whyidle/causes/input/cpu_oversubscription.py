"""Loader workers of several threads each, or far too many of them, crowd the cores."""

from __future__ import annotations

import math
from dataclasses import replace

from whyidle.analysis.core_capacity import kept_waiting, training_cores, usable_cores
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.loader_workers import LoaderWorkers
from whyidle.analysis.sampled_lines import lines_with_share
from whyidle.causes.input._worker_evidence import SOURCE, wait_evidence, workers_of
from whyidle.model.buckets import Bucket
from whyidle.model.cause import Proof, cause
from whyidle.model.process_facts import Neighbours
from whyidle.model.proof_facts import InputFacts
from whyidle.model.timeline import HostKind

FULL = 0.85
"""use of the granted cores from which on threads crowd each other"""
WAITED = 0.10
"""share of its time that the training thread waits for a core, below which it is no crowd"""
EXTRA = 0.1
"""what each further thread per core adds to the time: of a small network on one core, 8 threads
took 1.6 to 2 and 32 threads 3.4 to 4.9 times as long as one, 2 threads hardly longer (PyTorch 2.13,
libgomp)"""
CROWDED, MOSTLY = 1.5, 0.5
"""processes that want to run per core, and the share of the time with more of them than cores"""
_CPU = ("job_cpu_user_s", "job_cpu_system_s")


@cause(
    "More threads than cores",
    bucket="input",
    needs=("device_time", "loader_marks", "worker_batches", "steps"),
    watched=("host_telemetry",),
)
def cpu_oversubscription(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Each loader worker, or the training process itself, computes with several threads, and all of
    them together are more than the cores that the job may use. Or there are far more workers than
    cores.

    Why it costs
    ------------
    Threads of one operator wait for each other, and spin while they do; those that wait for a
    core hold up the rest. The same work takes more CPU than with one thread per worker. Hundreds
    of workers take turns with the training process, which gets a core as seldom as each of them.

    How it is detected
    ------------------
    Workers have more than one thread for an operator, workers times threads exceed the cores
    (affinity and control group's quota), and threads beside the loading one burn CPU, or the
    loading thread waits for a core for a fifth of its time. How much CPU one thread would need is
    not known: careful is no gain, hopeful that the waiting for cores and the other threads' CPU
    both vanish. Where the device is the CPU and the job uses up its cores, such workers hold up
    training itself: hopeful is that its thread never waits for a core, expected that the cores have
    its work as now and that of the loading threads alone.

    Workers are too many where a batch mostly waits for a core while it is made, and there are more
    than twice as many as keep the cores busy. As many as do, which is one for each core, or more
    where most batches wait for storage, do the same work;
    the wait of the training thread for a core then counts even where other programs use some of
    the cores, but as these may be what it waits for, half of it is expected to stay.

    Of the training process: an operator of its uses more threads than there are cores for it, the
    job uses up its cores, and the training thread waits for a core for a tenth of its time and
    more. Careful is no gain, expected what so many threads per core were measured to cost, hopeful
    all of that wait. Several training processes of one command that train at the same time (ranks,
    Hogwild) count together. What their threads spin for each other is then not known: hopeful is
    a step as short as the shortest one, which met the others least, expected half of that. A
    command without steps shows it as more
    processes that want to run than cores, for most of the time.

    What looks alike
    ----------------
    Other jobs on the same machine: they make workers wait for cores too, but then each worker has
    one thread, and there are hardly more of them than cores. Too much work for the cores is
    ``heavy-cpu-transform``.

    What to do
    ----------
    ``torch.set_num_threads(1)`` and ``cv2.setNumThreads(0)`` in a ``worker_init_fn`` (PyTorch sets
    one thread itself unless the dataset changes it), ``OMP_NUM_THREADS=1`` for other libraries,
    and no more workers than cores less one. Where workers, their threads and those of the training
    process are too many at once, change them together: each alone leaves the others.

    References
    ----------
    transferable-samplers/transferable-samplers issue 12; Lightning-AI/pytorch-lightning pull
    request 18677.
    """
    workers = workers_of(facts, "crowd") if "worker_batches" in facts.signals else None
    if workers is None:
        return _prove_crowded_command(facts) if facts.has_no_steps else _own_threads(facts)
    free = (
        max(workers.batch_time - workers.mean_of("delay"), workers.mean_of("cpu"))
        + workers.pickle_time
    )
    stall = workers.predict_stall(workers.count, free, workers.mean_of("cpu"))
    bucket: Bucket = "input"
    high = workers.waiting_share
    expected = (high - workers.remaining_share(stall)) / 2
    threads = max(worker.threads for worker in workers.loading.workers)
    with_threads = f" with {threads} threads each" if threads > 1 else ""
    enough = workers.sufficient_workers if workers.is_surplus else None
    method = "one thread per worker" if threads > 1 else f"{enough} workers"
    if threads > 1 and enough is not None:
        method = f"{enough} workers, one thread each"
    own = _kept_waiting(facts)
    waits = kept_waiting(facts) if workers.is_surplus else own
    if waits > high:
        well = _shared_well(facts, workers, waits)
        high, bucket, expected = waits, "compute", well if own else well / 2
    return Proof(
        headline=f"{workers.count} workers{with_threads} share {_format_cores(workers.cores)}",
        low=0.0,
        high=high,
        predicted=from_gains((0.0, min(expected, high), high), f"P1: {method}"),
        evidence=(
            *wait_evidence(workers, "cpu", "delay"),
            *(
                [make_evidence("training thread waits for a core", waits, "ratio", source="/proc")]
                if waits > 0.0
                else []
            ),
            make_evidence(
                "CPU of other threads per batch", workers.other_threads_cpu, "s", source=SOURCE
            ),
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


def _training_threads(facts: Facts, workers: LoaderWorkers) -> InputFacts:
    """Threads of operators of a training process on the CPU, where workers leave it fewer cores:
    they have to load as much as now."""
    threads = facts.timeline.process.operator_threads or 0
    busy = max(1, min(math.ceil(_loading_cores(facts, workers)), workers.sufficient_workers))
    most = max(1, int(workers.cores) // max(facts.timeline.world_size or 1, 1) - busy)
    crowded = facts.on_cpu and threads > most
    return InputFacts(main=most, main_was=threads) if crowded else InputFacts()


def _loading_cores(facts: Facts, workers: LoaderWorkers) -> float:
    """Cores' worth of what the loading threads do in a step."""
    return workers.per_step * (workers.mean_of("cpu") + workers.pickle_time) / facts.step_s


def _kept_waiting(facts: Facts) -> float:
    """Share of its time that the training thread waits for a core, where the job uses them up."""
    outside, cores = facts.telemetry, usable_cores(facts)
    used = outside.summed_rate(*_CPU) if outside else None
    return kept_waiting(facts) if cores and (used or 0.0) >= FULL * cores else 0.0


def _shared_well(facts: Facts, workers: LoaderWorkers, waits: float) -> float:
    """The share of the step that is won if the cores have but the training process's work, as now,
    and that of the loading threads; its own thread cannot run any shorter. Operators split their
    work evenly: what their other threads take beyond what it takes itself, they spin. Crowded
    cores did as much as they can: what the job got of them is what there is."""
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


def _own_threads(facts: Facts) -> Proof | None:
    """Operators of the training process, and of those beside it, on more threads than the cores
    that they may use."""
    threads = facts.timeline.process.operator_threads or 0
    outside, share, cores = facts.telemetry, _kept_waiting(facts), usable_cores(facts)
    processes, together = _concurrent_processes(facts, threads)
    if outside is None or not cores or together <= cores or share < WAITED or threads < 2:
        return None
    beside = facts.timeline.neighbours is not None
    high = max(share, _least_disturbed_share(facts)) if beside else share
    expected = high / 2 if beside else min(_contention_slowdown(together / cores), share)
    method = (
        "a step as short as the shortest one, or without the training thread's wait for a core"
        if beside
        else "class figure of threads per core; at most the training thread's wait for a core"
    )
    whose = f" of {processes} training processes" if beside else ""
    return Proof(
        headline=f"Operators{whose} run on {together if beside else threads} threads, and the job "
        f"may use {_format_cores(cores)}",
        low=0.0,
        high=high,
        predicted=from_gains((0.0, expected, high), method),
        evidence=(
            make_evidence("threads of an operator", threads, None, source="torch.get_num_threads"),
            *([make_evidence("training processes at a time", processes, None)] if beside else []),
            make_evidence("cores that the job may use", cores, None, source="affinity and quota"),
            make_evidence(
                "cores' worth of CPU time used",
                outside.summed_rate(*_CPU) or 0.0,
                None,
                source="its processes",
            ),
            make_evidence("training thread waits for a core", share, "ratio", source="/proc"),
            *(
                [
                    make_evidence(
                        "the shortest step", _shortest_s(facts), "s", samples=facts.step_count
                    )
                ]
                if beside
                else []
            ),
        ),
        confidence=0.7,
        where=tuple(
            place for place, _ in lines_with_share(facts, facts.time_of("compute"), HostKind.OP)[:1]
        ),
        facts=InputFacts(threads=threads, own=int(max(1, cores // processes))),
        bucket="compute",
    )


def _concurrent_processes(facts: Facts, threads: int) -> tuple[int, int]:
    """Training processes that compute at a time, this one among them, and threads of all their
    operators. Ranks that were not seen are taken to be as this one."""
    ranks = max(facts.timeline.world_size or 1, 1)
    beside = facts.timeline.neighbours or Neighbours(0, 0)
    processes = max(ranks, 1 + beside.processes)
    return processes, max(threads * ranks, threads + beside.threads)


def _least_disturbed_share(facts: Facts) -> float:
    """Share of computing that a step spares which met the others' threads least: how long threads
    spin for each other is not told, but the shortest step had the least of it."""
    return min(max(0.0, 1.0 - _shortest_s(facts) / facts.step_s), facts.bucket_share("compute"))


def _shortest_s(facts: Facts) -> float:
    return float(facts.steps.seconds.min(initial=facts.step_s))


def _format_cores(cores: float) -> str:
    return f"{cores:.3g} core{'s' if cores != 1 else ''}"


def _contention_slowdown(crowd: float) -> float:
    """Share of the time that threads cost each other, by their number per core."""
    return 1.0 - 1.0 / (1.0 + EXTRA * max(0.0, crowd - 1.0))


def _prove_crowded_command(facts: Facts) -> Proof | None:
    """A command without steps: more of its processes want to run than it has cores."""
    outside, cores = facts.telemetry, usable_cores(facts)
    running = outside.values_read("job_running") if outside else None
    if outside is None or not cores or running is None or not len(running):
        return None
    crowd = float(running.mean())
    if crowd <= CROWDED * cores or float((running > cores).mean()) < MOSTLY:
        return None
    high = min(1.0 - cores / crowd, facts.bucket_share("unknown"))
    return Proof(
        headline=f"{crowd:.3g} processes at a time want to run on {_format_cores(cores)}",
        low=0.0,
        high=high,
        predicted=from_gains((0.0, high / 2, high), "as many processes as cores"),
        evidence=(
            make_evidence("processes that run or wait for a core", crowd, None, source="/proc"),
            make_evidence(
                "cores that the command may use", cores, None, source="affinity and quota"
            ),
        ),
        confidence=0.6,
        facts=InputFacts(threads=1),
        bucket="unknown",
    )
