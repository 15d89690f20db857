"""Room for loader workers on the machine's cores. Shares are of the step (0-1)."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from whyidle.analysis.facts import Facts
from whyidle.analysis.host.cpu_affinity import cores_for_loading, kept_waiting, training_cores
from whyidle.analysis.input.worker_capacity import waiting_workers
from whyidle.analysis.steps.forecast import WORKERS
from whyidle.model.cause import MOSTLY

FULL = 0.85
"""use of a job's cores from which none is left, and threads compete"""
SHARED = 0.65
"""worth of a core at worst while all are busy: virtual machines count hardware threads, and a
second one adds some 30 % to its core (Marr et al., "Hyper-Threading Technology Architecture and
Microarchitecture", Intel Technology Journal 6(1), 2002)"""

BUSY_CORE = (SHARED, (1.0 + SHARED) / 2, 1.0)
"""worth of each core while all are busy: lower bound, expected, upper bound"""


class CoreCapacity(Struct, frozen=True):
    """Limits that the machine's cores set."""

    workers: tuple[int, int]
    """how many can work at once, at least and at most"""
    floor: tuple[float, float]
    """the shortest step in which the cores can do all the work, at best and at worst"""
    usual: float | None = None
    """the expected shortest step; None: no limit"""


def find_capacity(
    facts: Facts, work: float, blocked: float, handing: tuple[float, float] = (0.0, 0.0)
) -> CoreCapacity:
    """Return the room for workers that take over ``work``, of which ``blocked`` now holds up the
    step.

    The cores must do the loading, the ``handing`` over (expected, at most) and the rest of a step.
    At best the rest runs on one core; at worst on as many as operators have threads, and other
    programs keep their cores; that costs half as much as expected. An operator ends with its last
    thread, so others spin while a worker has its core: at worst training stops while workers load.
    """
    loading, usable = facts.timeline.loading, cores_for_loading(facts)
    if usable is None:
        return CoreCapacity(WORKERS, (0.0, 0.0))
    cores = max(usable, 1.0)
    busy = _share_of_loading(facts, "cpu")
    threads = float(loading.threads or 1) if facts.on_cpu else 1.0
    other_work = 1.0 - blocked
    best = (work * busy + other_work) / cores

    def step(left: float, wide: float, more: float) -> float:
        """Length on ``left`` cores if the part ``wide`` of the rest uses all its threads."""
        left = max(left, 1.0)
        all_of_it = work * busy + other_work + more + wide * (min(threads, left) - 1.0)
        return max(best, min(all_of_it / left, 1.0 + more))

    undisturbed = step(SHARED * cores, other_work, handing[1])
    worst = step(SHARED * min(cores, _free_cores(facts)), other_work, handing[1])
    wide = min(facts.bucket_share("compute"), other_work)
    usual = min(step(BUSY_CORE[1] * cores, wide, handing[0]), undisturbed)
    usual += (worst - undisturbed) / 2
    worker_pace = SHARED * cores / (threads + WORKERS[0])  # of a worker among spinning threads
    if threads > 1.0 and worker_pace < SHARED:
        worst = max(worst, other_work + handing[1] + work * busy / (WORKERS[0] * worker_pace))
    return CoreCapacity((WORKERS[0], _most_workers(facts, cores)), (best, worst), usual)


def _most_workers(facts: Facts, cores: float) -> int:
    if not mostly_waits(facts):
        return min(max(int(np.ceil(cores)), WORKERS[0]), WORKERS[1])
    return max(waiting_workers(facts, 0), WORKERS[0])


def gain_on_cores(facts: Facts, granted: float, waited: float) -> tuple[float, float, float] | None:
    """Return the shares of the step that ``granted`` cores save a job with workers: lower bound,
    expected, upper bound; None without recorded batches. ``waited`` is its present wait for data.

    The processes need their present CPU time, and each core is worth less while all are busy. A
    training process without known CPU time counts as one core while it does not wait.
    """
    workers, own = facts.workers, training_cores(facts)
    if not workers.is_known:
        return None
    loading = (
        (workers.mean_of("process_cpu") + workers.pickle_time) * workers.per_step / facts.step_s
    )
    worker_share = workers.uncontended_batch_time * workers.per_step / facts.step_s / workers.count
    free = 1.0 - kept_waiting(facts) - waited
    own = free if own is None else own
    alone = max(free, own / max(facts.timeline.loading.threads or 1, 1))
    gains = []
    for worth in BUSY_CORE:
        slower = 1.0 / worth - 1.0 if 1 + workers.count >= granted else 0.0
        limit = max(
            alone + slower * min(loading, alone), worker_share + slower * min(alone, worker_share)
        )
        gains.append(max(0.0, 1.0 - max(limit, (own + loading) / (granted * worth))))
    return gains[0], gains[1], gains[2]


def usable_cores(facts: Facts) -> float | None:
    """Return the cores that the job may use, or was granted before a restriction, if recorded."""
    process, outside = facts.timeline.process, facts.telemetry
    now = outside.mean_value("cores_effective") if outside else None
    granted, bound = process.cores_given, process.cores
    if now is None or outside is None or not granted or not bound or bound >= granted:
        return now
    return max(now, min(granted, outside.mean_value("cores_quota") or granted))


def mostly_waits(facts: Facts) -> bool:
    """Return whether loading in the training process mostly waits, and not for a core."""
    return _share_of_loading(facts, "cpu", "delay") < MOSTLY


def idle_cores(facts: Facts) -> float | None:
    """Return the mean number of usable cores that were idle; None where not recorded."""
    idle = facts.telemetry.counter_rate("machine_cpu_idle_s") if facts.telemetry else None
    return idle if idle is None else min(idle, usable_cores(facts) or idle)


def _free_cores(facts: Facts) -> float:
    outside = facts.telemetry
    idle = outside.counter_rate("machine_cpu_idle_s") if outside else None
    own = outside.summed_rate("job_cpu_user_s", "job_cpu_system_s") if outside else None
    return float("inf") if idle is None or own is None else idle + own


def _share_of_loading(facts: Facts, *columns: str) -> float:
    """Share of the loading in the training process that these columns take; 1 where unknown."""
    rows = facts.timeline.loading.batches
    rows = rows[(rows["worker"] < 0) & (rows["cpu"] >= 0)]
    took = float((rows["end"] - rows["start"]).sum())
    taken = sum(float(rows[column].clip(0).sum()) for column in columns)
    return min(1.0, taken / took) if took > 0.0 else 1.0
