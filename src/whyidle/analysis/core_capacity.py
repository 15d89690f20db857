"""What the machine's cores leave room for: how many loader workers, and how short the step can get.

Shares are of the step (0-1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whyidle.analysis.cpu_affinity import cores_for_loading
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import WORKERS
from whyidle.analysis.worker_capacity import waiting_workers

MOSTLY = 0.5
"""loading that is on a CPU for less than this share of its time waits for something else, and more
workers than cores still help"""
SHARED = 0.65
"""what a core is worth at worst while all are busy: virtual machines count hardware threads,
of which the second adds some 30 % to its core (Marr et al., "Hyper-Threading Technology
Architecture and Microarchitecture", Intel Technology Journal 6(1), 2002)"""

BUSY_CORE = (SHARED, (1.0 + SHARED) / 2, 1.0)
"""what each core is worth while all are busy: careful, expected, hopeful"""


@dataclass(frozen=True, slots=True)
class CoreCapacity:
    """``workers``: how many can work at once, at least and at most. ``floor``: the step cannot
    become shorter than this, because the cores have all the work to do, at best and at worst;
    ``usual``: and as expected, None where nothing limits."""

    workers: tuple[int, int]
    floor: tuple[float, float]
    usual: float | None = None


def find_capacity(
    facts: Facts, work: float, blocked: float, handing: tuple[float, float] = (0.0, 0.0)
) -> CoreCapacity:
    """Room for workers that take over ``work``, of which ``blocked`` holds up the step now.

    The cores must do both the loading, as far as it ran on a CPU where it is done now, and the
    rest of the step: on one core at best, on as many as operators have threads at worst where the
    device is the CPU itself; on all cores that rest took its time at what they are worth together,
    and takes no longer for that. At worst, cores that other programs keep busy stay theirs, and as
    expected that costs half as much. An operator ends with the last of its threads: where a worker
    has the core of one, the others spin for it. At worst training comes no further while workers
    load, who share the cores with what spins, and the step becomes longer. ``handing`` over what
    workers load is work, too (likely, careful). Where the recording does not tell the cores,
    nothing limits.
    """
    loading, usable = facts.timeline.loading, cores_for_loading(facts)
    if usable is None:
        return CoreCapacity(WORKERS, (0.0, 0.0))
    cores = max(usable, 1.0)
    busy = _on_cpu(facts)
    threads = float(loading.threads or 1) if facts.on_cpu else 1.0
    rest = 1.0 - blocked
    best = (work * busy + rest) / cores

    def step(left: float, wide: float, more: float) -> float:
        """On cores worth so many, where this part of the rest runs on all its threads."""
        left = max(left, 1.0)
        all_of_it = work * busy + rest + more + wide * (min(threads, left) - 1.0)
        return max(best, min(all_of_it / left, 1.0 + more))

    alone = step(SHARED * cores, rest, handing[1])
    worst = step(SHARED * min(cores, _free_cores(facts)), rest, handing[1])
    wide = min(facts.bucket_share("compute"), rest)
    usual = min(step(BUSY_CORE[1] * cores, wide, handing[0]), alone)
    usual += (worst - alone) / 2
    pace = SHARED * cores / (threads + WORKERS[0])  # of a worker beside threads that spin
    if threads > 1.0 and pace < SHARED:
        worst = max(worst, rest + handing[1] + work * busy / (WORKERS[0] * pace))
    return CoreCapacity((WORKERS[0], _most_workers(facts, cores)), (best, worst), usual)


def _most_workers(facts: Facts, cores: float) -> int:
    """Workers that can work at once: one on each core, or, where they only wait, as many as there
    is memory for."""
    if not mostly_waits(facts):
        return min(max(int(np.ceil(cores)), WORKERS[0]), WORKERS[1])
    return max(waiting_workers(facts, 0), WORKERS[0])


def on_cores(facts: Facts, granted: float, waited: float) -> tuple[float, float, float] | None:
    """Shares of the step that other ``granted`` cores save a job that loads with workers: careful,
    expected, hopeful; None where its batches were not seen being made. ``waited`` is the share it
    waits for data now.

    The training process and its workers need the time that they need now when they do not wait for
    a core; while all cores are busy, each is worth less. The training process whose CPU time was
    not read is taken to keep one core busy while it does not wait.
    """
    workers, own = facts.workers, training_cores(facts)
    if not workers.is_known:
        return None
    loading = (
        (workers.mean_of("process_cpu") + workers.pickle_time) * workers.per_step / facts.step_s
    )
    each = workers.uncontended_batch_time * workers.per_step / facts.step_s / workers.count
    free = 1.0 - kept_waiting(facts) - waited
    own = free if own is None else own
    alone = max(free, own / max(facts.timeline.loading.threads or 1, 1))
    gains = []
    for worth in BUSY_CORE:
        slower = 1.0 / worth - 1.0 if 1 + workers.count >= granted else 0.0
        beside = max(alone + slower * min(loading, alone), each + slower * min(alone, each))
        gains.append(max(0.0, 1.0 - max(beside, (own + loading) / (granted * worth))))
    return gains[0], gains[1], gains[2]


def usable_cores(facts: Facts) -> float | None:
    """Cores that the job may use, by affinity and quota: those that it was given, where something
    in it bound it to fewer of them later; None where nobody looked."""
    process, outside = facts.timeline.process, facts.telemetry
    now = outside.mean_value("cores_effective") if outside else None
    given, bound = process.cores_given, process.cores
    if now is None or outside is None or not given or not bound or bound >= given:
        return now
    return max(now, min(given, outside.mean_value("cores_quota") or given))


def kept_waiting(facts: Facts) -> float:
    """Share of its time that the training thread waits for a core, where it computes itself; 0
    where it does not, or the kernel does not tell."""
    told = facts.timeline.process.sampler
    waited, seen = told.core_wait_s, told.core_seen_s
    if not facts.on_cpu or not waited or not seen:
        return 0.0
    return float(min(waited / seen, facts.bucket_share("compute")))


def training_cores(facts: Facts) -> float | None:
    """Cores' worth of CPU time that the training process takes, loader workers left out; None
    where it was not read."""
    subject, outside = f"pid{facts.timeline.process.pid}", facts.telemetry
    kinds = ("cpu_user_s", "cpu_system_s")
    rates = [outside.counter_rate(kind, subject) for kind in kinds] if outside else [None]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if len(known) == len(rates) else None


def mostly_waits(facts: Facts) -> bool:
    """Whether loading in the training process is for something else than a core."""
    return _on_cpu(facts) < MOSTLY


def idle_cores(facts: Facts) -> float | None:
    """Cores of those the job may use that nobody used, on average; None where nobody counted."""
    idle = facts.telemetry.counter_rate("machine_cpu_idle_s") if facts.telemetry else None
    return idle if idle is None else min(idle, usable_cores(facts) or idle)


def _free_cores(facts: Facts) -> float:
    """Cores that other programs of the machine left to the job; inf where nobody counted."""
    outside = facts.telemetry
    idle = outside.counter_rate("machine_cpu_idle_s") if outside else None
    own = outside.summed_rate("job_cpu_user_s", "job_cpu_system_s") if outside else None
    return float("inf") if idle is None or own is None else idle + own


def _on_cpu(facts: Facts) -> float:
    """Share of the loading in the training process that ran on a CPU; 1 where it is not told."""
    rows = facts.timeline.loading.batches
    rows = rows[(rows["worker"] < 0) & (rows["cpu"] >= 0)]
    took = float((rows["end"] - rows["start"]).sum())
    return min(1.0, float(rows["cpu"].sum()) / took) if took > 0.0 else 1.0
