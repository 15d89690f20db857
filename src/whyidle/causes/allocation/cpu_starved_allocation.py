"""The job has too few cores to feed its device."""

from __future__ import annotations

from whyidle.analysis.core_capacity import kept_waiting, on_cores, usable_cores
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains, predict_removal
from whyidle.analysis.inline_loading import loading_alone
from whyidle.analysis.telemetry_window import TelemetryWindow
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Predicted
from whyidle.model.proof_facts import AllocationFacts

FEW = 2.0
"""cores for a training process with which preparing data and training fight for them; GPU nodes
give eight and more to a GPU"""
FULL = 0.85
"""use of the granted cores from which on there is nothing left to prepare data with"""
CROWDED = 1.25
"""processes that run or wait for a core, per granted core; a neighbour on the same cores may keep
the job's own use of them low"""
HELD = 0.05
"""share of the time held back by a quota that is felt"""
RESTRICTED = 1.5
"""a machine with so many times the cores has more that could be granted"""
LEAST_SHARE = 0.05
"""share of the step waiting for data (where peers begin to warn)"""


@cause(
    "The job has too few CPU cores",
    bucket="input",
    needs=("host_telemetry", "steady_steps"),
    watched=("host_telemetry", "stepless"),
)
def cpu_starved_allocation(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The job may use one or two cores per training process, by its affinity or by a quota of its
    control group, it uses them up, and the device waits for data.

    Why it costs
    ------------
    Loader workers, decoding and the training process take turns on the same cores. More workers
    only add more turns.

    How it is detected
    ------------------
    Cores granted against CPU time used by all processes of the job, how many of them want to run at
    once, and the time in which the quota held the job back, over the steps in scope; together with
    an exposed wait for the next batch of at least 5 % of the step. With enough cores loading hides
    behind computing (P1): carefully nothing is won, as something else may turn out to be the next
    limit. Where the workers and the CPU time of the processes were seen, expected is the step that
    twice the cores would have room for: no shorter than the training process or its workers need
    when nobody waits for a core, and so short only as cores that share their arithmetic units
    allow. Else half of that wait is expected. Where the device is the CPU, computing waits for a
    core, too: where it does so for longer than for data, that is what the missing cores cost.

    Without loader workers one thread loads, which has no use for a second core: then what counts is
    how long it waits for a core meanwhile, and that is all that more of them bring. What other
    threads of the process burn beside it is not counted as use: those of an operator spin for some
    time after it.

    A machine that has more cores than were granted makes it sure. Of a command without steps, only
    the time in which a quota held it back counts.

    What looks alike
    ----------------
    Workers that wait for storage leave cores idle: then nothing is said. Workers of several threads
    each, more than the cores, or far more workers than cores, use them up by themselves
    (``cpu-oversubscription``): what the job needs is known once there are as many as cores, of one
    thread each. A thread that loads all by itself on a core of its own is
    ``dataloader-no-workers``. Neighbours that take the
    cores have the same effect where only one or two were granted: with more cores the scheduler
    would have had others to offer.

    What to do
    ----------
    Ask for more cores per GPU; until then fewer operator threads, cheaper or cached preparation,
    or decoding on the GPU.

    References
    ----------
    Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021 (cores per GPU
    that hide preparation); Linux, cgroup v2 ``cpu.max`` and ``cpu.stat``.
    """
    outside, waited = facts.telemetry, facts.bucket_share("input")
    if outside is not None and facts.has_no_steps:
        return _prove_throttling(facts, outside)
    if outside is None or waited < LEAST_SHARE or facts.workers.wait_kind == "crowd":
        return None
    cores, used, held = _core_usage(facts, outside)
    processes = max(facts.timeline.world_size or 1, 1)
    if cores is None or cores > FEW * processes:
        return None
    kept = kept_waiting(facts)
    alone = loading_alone(facts, waited) if held < HELD else None
    missed = waited if alone is None else alone.lacking
    if max(missed, kept) < LEAST_SHARE:
        return None
    crowd = outside.mean_value("job_running") or 0.0
    spun = alone.beside * processes if alone else 0.0
    used_up = used is not None and used - spun >= FULL * cores
    restricted = crowd >= CROWDED * cores and (_machine_cores(outside) or 0.0) >= RESTRICTED * cores
    if not (used_up or held >= HELD or crowd >= CROWDED * cores):
        return None
    computing = kept > missed
    return Proof(
        headline=f"The job uses up the {cores:g} CPU core{'s' if cores != 1 else ''} that it may "
        f"use, and waits for {'them' if computing or alone else 'data'}",
        low=0.0,
        high=max(missed, kept),
        predicted=_predict_more_cores(facts, cores, missed),
        evidence=(
            *_core_evidence(cores, used, held),
            make_evidence("its processes that run or wait for a core", crowd, None, source="/proc"),
            make_evidence("waiting for the next batch, share of step", waited, "ratio"),
            *([make_evidence("of it waiting for a core", missed, "ratio")] if alone else []),
            *([make_evidence("training thread waits for a core", kept, "ratio")] if kept else []),
        ),
        confidence=0.95 if restricted else 0.85 if used_up or held >= HELD else 0.7,
        facts=AllocationFacts(threads=_worker_threads(facts)),
        bucket="compute" if computing else "input",
    )


def _worker_threads(facts: Facts) -> int:
    """Threads of a loader worker, of the one with most of them; 1 where there are no workers."""
    return max((worker.threads for worker in facts.timeline.loading.workers), default=1)


def _predict_more_cores(facts: Facts, cores: float, waited: float) -> Predicted:
    """What twice the cores bring."""
    method, granted = "P1: loading hidden behind computing", 2.0 * cores
    gains = on_cores(facts, granted, waited)
    if gains is None:
        return predict_removal(0.0, waited, f"{method}, given the cores")
    return from_gains((0.0, *gains[1:]), f"{method}, on {granted:g} cores")


def _machine_cores(outside: TelemetryWindow) -> float | None:
    """How many cores the machine has: time of all kinds per second. Waiting for storage is a part
    of having nothing to do."""
    kinds = ("user", "system", "idle", "stolen")
    return outside.summed_rate(*(f"machine_cpu_{kind}_s" for kind in kinds))


def _prove_throttling(facts: Facts, outside: TelemetryWindow) -> Proof | None:
    """A command without steps: its quota holds it back. At best all of that time comes back."""
    cores, used, held = _core_usage(facts, outside)
    high = min(held, facts.bucket_share("unknown"))
    if cores is None or high < HELD:
        return None
    return Proof(
        headline=f"A quota of {cores:g} cores holds the command back {held:.0%} of the time",
        low=0.0,
        high=high,
        predicted=predict_removal(0.0, high, "the time held back by the quota"),
        evidence=_core_evidence(cores, used, held),
        confidence=0.8,
        bucket="unknown",
    )


def _core_usage(facts: Facts, outside: TelemetryWindow) -> tuple[float | None, float | None, float]:
    """Granted, used, and the share of the time that the quota held the job back."""
    granted = usable_cores(facts)
    used = outside.summed_rate("job_cpu_user_s", "job_cpu_system_s")
    return granted, used, min(1.0, outside.counter_rate("throttled_s") or 0.0)


def _core_evidence(cores: float, used: float | None, held: float) -> tuple[Evidence, ...]:
    return (
        make_evidence("cores that the job may use", cores, None, source="affinity and quota"),
        make_evidence("cores' worth of CPU time used", used or 0.0, None, source="its processes"),
        make_evidence("time held back by the quota, per second", held, "ratio", source="cpu.stat"),
    )
