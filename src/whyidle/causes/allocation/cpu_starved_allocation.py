"""The job has too few CPU cores to feed its device."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import FULL, gain_on_cores, usable_cores
from whyidle.analysis.host.core_limits import find_core_limit
from whyidle.analysis.host.cpu_affinity import kept_waiting
from whyidle.analysis.host.telemetry_window import TelemetryWindow
from whyidle.analysis.input.batch_waits import find_batch_waits
from whyidle.analysis.steps.forecast import from_gains, predict_removal
from whyidle.model.cause import MOSTLY, Proof, cause
from whyidle.model.diagnosis import Evidence, Predicted
from whyidle.model.proof_facts import AllocationFacts
from whyidle.model.roles import Role

FEW = 2.0
"""cores per training process at which data preparation and training compete; GPU nodes have eight
or more per GPU"""
CROWDED = 1.25
"""running or runnable processes per granted core; a neighbour on the same cores may keep the job's
own use of them low"""
THROTTLED = 0.05
"""least share of the time lost to a quota"""
LEAST_SHARE = 0.05
"""least share of the step waiting for data, from which other tools warn, too"""


@cause(
    "The job has too few CPU cores",
    bucket="input",
    needs=("host_telemetry", "steady_steps"),
)
def cpu_starved_allocation(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    CPU affinity or a control group quota gives the job at most two cores per training process. The
    job uses all of them, and the device waits for data.

    Why it costs
    ------------
    Loader workers and the training process share the same cores, and so would more workers.

    How it is detected
    ------------------
    The wait for the next batch takes at least 5 % of the step or, on a CPU of a machine with more
    cores, the training thread's wait for a core does. In addition, the job's processes use at least
    85 % of the granted cores, 1.25 processes per core are runnable, or the quota throttles the job
    for 5 % of the time. Without loader workers, only the wait for a core during loading counts. The
    report names the limit: a quota, a cpuset, or an affinity set by ``taskset`` or a launcher.

    With enough cores, loading is hidden behind computing (P1). The lower bound is zero, because
    another limit may follow. The expected gain is half of the wait; if workers and CPU times were
    recorded, it is computed for all cores of the machine (without a known limit, for twice the
    cores).

    What looks alike
    ----------------
    Workers that wait for storage leave cores idle and are not reported. Workers with more threads
    than cores, or far more workers than cores, are reported as ``cpu-oversubscription``. Workers
    that cost more than they save on any number of cores are reported as
    ``worker-handoff-bottleneck``. A single thread that loads on its own core is reported as
    ``dataloader-no-workers``. Other programs on the granted cores have the same effect.

    What to do
    ----------
    Request more cores per GPU. Until then, use fewer operator threads, cheaper or cached
    preprocessing, or decode on the GPU.

    References
    ----------
    Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021 (cores per GPU
    that hide preparation); Linux, cgroup v2 ``cpu.max`` and ``cpu.stat``.
    """
    telemetry, waiting = facts.telemetry, facts.bucket_share("input")
    if telemetry is None or _crowd_themselves(facts) or _needs_no_cores(facts):
        return None
    limit, core_wait = find_core_limit(facts), kept_waiting(facts)
    if max(waiting, core_wait if limit else 0.0) < LEAST_SHARE:
        return None
    cores, used, throttled = _core_usage(facts, telemetry)
    processes = max(facts.timeline.world_size or 1, 1)
    if cores is None or cores > FEW * processes:
        return None
    inline = _loading_alone(facts, waiting) if throttled < THROTTLED else None
    lost = waiting if inline is None else inline[0]
    if max(lost, core_wait) < LEAST_SHARE:
        return None
    running = telemetry.mean_value("job_running") or 0.0
    spinning = inline[1] * processes if inline else 0.0
    full = used is not None and used - spinning >= FULL * cores
    crowded = running >= CROWDED * cores
    if not (full or throttled >= THROTTLED or (crowded and waiting >= LEAST_SHARE)):
        return None
    computing = core_wait > lost
    evidence = [
        *_core_evidence(cores, used, throttled),
        make_evidence("running or runnable processes of the job", running, None, source="/proc"),
        make_evidence("waiting for the next batch, share of step", waiting, "ratio"),
    ]
    if inline:
        evidence.append(
            make_evidence("waiting for a core while loading, share of step", lost, "ratio")
        )
    if core_wait:
        evidence.append(make_evidence("training thread waiting for a core", core_wait, "ratio"))
    if limit:
        evidence.append(make_evidence("cores of the machine", limit.machine, None, source="/proc"))
        evidence.append(make_evidence("limit on cores", limit.kind, None))
        evidence.append(make_evidence("set by", limit.origin, None))
    return Proof(
        headline=f"{cores:g} CPU core{'s are' if cores != 1 else ' is'} too few for the job, which "
        f"waits for {'cores' if computing or inline else 'data'}"
        + (f": its {limit.kind} allows {cores:g} of {limit.machine:g} cores" if limit else ""),
        low=0.0,
        high=max(lost, core_wait),
        predicted=_predict_more_cores(facts, limit.machine if limit else 2.0 * cores, lost),
        evidence=tuple(evidence),
        confidence=0.95 if crowded and limit else 0.85 if full or throttled >= THROTTLED else 0.7,
        facts=AllocationFacts(
            threads=max((worker.threads for worker in facts.timeline.loading.workers), default=1),
            limit=limit.kind if limit else "",
            origin=limit.origin if limit else "",
        ),
        bucket="compute" if computing else "input",
    )


def _needs_no_cores(facts: Facts) -> bool:
    """Whether loading without workers is as fast as the present workers with a core each."""
    workers = facts.workers
    if not workers.better_without:
        return False
    return workers.predict_step(0) <= workers.predict_step(workers.count, cores=workers.count + 1.0)


def _crowd_themselves(facts: Facts) -> bool:
    """Whether workers crowd any number of cores: by several threads each, or by their number where
    no limit keeps the job from the machine's other cores."""
    threads = max((worker.threads for worker in facts.timeline.loading.workers), default=1)
    crowd = facts.workers.wait_kind == "crowd"
    return crowd and (threads > 1 or find_core_limit(facts) is None)


def _predict_more_cores(facts: Facts, granted: float, waiting: float) -> Predicted:
    """The gain with so many cores."""
    method = "P1: loading hidden behind computing"
    gains = gain_on_cores(facts, granted, waiting)
    if gains is None:
        return predict_removal(0.0, waiting, f"{method}, given the cores")
    return from_gains((0.0, *gains[1:]), f"{method}, on {granted:g} cores")


def _core_usage(
    facts: Facts, telemetry: TelemetryWindow
) -> tuple[float | None, float | None, float]:
    """Cores granted, cores used, and the share of the time lost to the quota."""
    used = telemetry.summed_rate("job_cpu_user_s", "job_cpu_system_s")
    return usable_cores(facts), used, min(1.0, telemetry.counter_rate("throttled_s") or 0.0)


def _core_evidence(cores: float, used: float | None, throttled: float) -> tuple[Evidence, ...]:
    return (
        make_evidence("cores granted to the job", cores, None, source="affinity and quota"),
        make_evidence("cores used by the job's processes", used or 0.0, None, source="/proc"),
        make_evidence("time throttled by the quota", throttled, "ratio", source="cpu.stat"),
    )


def _loading_alone(facts: Facts, waited: float) -> tuple[float, float] | None:
    """Return the share of the step in which the loading thread waits for a core, and meanwhile CPU
    time of others, in cores (operator threads spin after work, OpenMP); None if the ``waited``
    share has other reasons than loading on one thread."""
    calls = find_batch_waits(facts, Role.BATCH_INLINE)
    share = float(calls.exposed.sum()) / facts.scope_s
    if facts.workers.count or not share or share < MOSTLY * waited:
        return None
    rows = facts.timeline.loading.batches
    rows = rows[(rows["worker"] < 0) & (rows["cpu"] >= 0)]
    took = float((rows["end"] - rows["start"]).sum())
    if not took:
        return 0.0, 0.0
    lacking = min(1.0, float(rows["delay"].clip(0).sum()) / took)
    others = float((rows["process_cpu"] - rows["cpu"]).clip(0).sum()) / took
    during = float(calls.durations_s.sum()) / facts.scope_s
    return share * lacking, min(1.0, during) * others
