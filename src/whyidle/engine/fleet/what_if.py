"""What if the cluster were scheduled otherwise: the jobs of a ledger under other policies.

Waits are predicted only where the simulator makes those that happened. It does not know today's
policy, so it tries the usual ones and takes the one that comes closest; the error of its mean wait
is printed, and above ``MOST_ERROR`` nothing is said of waits.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from whyidle.engine.fleet.placement import Cluster
from whyidle.engine.fleet.replay import pile_jobs, replay_jobs
from whyidle.errors import InputError, UsageError
from whyidle.model.fleet_rows import WHOLE, FleetJob, LedgerRows, NodeRow
from whyidle.model.fleet_what_if import (
    Division,
    Order,
    Placement,
    Policy,
    PolicyResult,
    Reproduction,
    WhatIfReport,
)
from whyidle.version import __version__

MOST_ERROR: Final = 0.2
"""relative error of the mean wait above which the simulator is not believed"""
LEAST_WAIT_S: Final = 1.0
"""mean wait below which nobody waited: ledgers count whole seconds"""
ORDERS: Final[tuple[Order, ...]] = ("fifo", "backfill")
PLACEMENTS: Final[tuple[Placement, ...]] = ("first-fit", "best-fit", "spread")
DIVISIONS: Final[tuple[Division, ...]] = ("whole", "share", "mig")
DEFAULT: Final = (
    "fifo",
    "best-fit",
    "backfill+best-fit",
    "share",
    "backfill+best-fit+share",
    "mig",
)
Progress = Callable[[str, int, int], None]


def parse_policy(text: str) -> Policy:
    """Read words such as ``backfill+best-fit+share``; what is not named is fifo, first-fit, whole.

    Raises:
        UsageError: a word is unknown, or two of one kind are named.
    """
    fields: dict[str, object] = {}
    kinds = {"order": ORDERS, "placement": PLACEMENTS, "division": DIVISIONS}
    for word in text.split("+"):
        kind = next((kind for kind, words in kinds.items() if word in words), None)
        kind = "gang" if word == "no-gang" else kind
        if kind is None or kind in fields:
            known = ", ".join((*itertools.chain(*kinds.values()), "no-gang"))
            raise UsageError(
                f"{text!r} is no policy.",
                why=f"It is one word of each kind, joined with +: {known}.",
                hint="--policy backfill+best-fit+share",
            )
        fields[kind] = False if kind == "gang" else word
    return Policy(**fields)  # type: ignore[arg-type]


def replay_ledger(
    rows: LedgerRows,
    ledgers: Sequence[str],
    policies: Sequence[Policy],
    *,
    activity: Mapping[str, float] | None = None,
    progress: Progress = lambda *_: None,
) -> WhatIfReport:
    """Replay the jobs of a ledger under each policy.

    Args:
        rows: jobs and nodes.
        ledgers: their names, for the report.
        policies: what to try.
        activity: mean share of multiprocessors in use (0-1) by job, where measured.
        progress: called with the name of a policy, ended jobs and all jobs.

    Raises:
        InputError: there are no jobs with GPUs, or the nodes are not known.
    """
    counts: Counter[str] = Counter(rows.counts)
    nodes = [node for node in rows.nodes if node.gpus > 0]
    if not nodes:
        raise InputError(
            "The cluster's nodes are not known.",
            why="Jobs are placed on nodes with a number of GPUs.",
            hint="--ledger csv:JOBS.csv,NODES.csv, or --ledger slurm",
        )
    jobs = _usable_jobs(rows.jobs, nodes, counts)
    timed = [job for job in jobs if None not in (job.submit_ms, job.start_ms, job.end_ms)]
    if len(timed) < len(jobs):
        counts["jobs without submit, start and end: not in the queue"] += len(jobs) - len(timed)
    made = _reproduce(timed, nodes, progress)
    results = []
    for policy in policies:
        queue = None
        if made.why is None:
            queue = replay_jobs(timed, nodes, policy, partial(progress, policy.name))
        results.append(
            PolicyResult(
                policy=policy,
                name=policy.name,
                pile=pile_jobs(jobs, nodes, policy),
                queue=queue,
                slowdown=_bound_slowdown(jobs, policy, activity or {}),
            )
        )
    return WhatIfReport(
        whyidle=__version__,
        ledgers=list(ledgers),
        jobs=len(jobs),
        gpus=sum(node.gpus for node in nodes),
        nodes=len(nodes),
        asked_devices=sum(job.gpus for job in jobs),
        asked_shares=sum(job.gpus * job.milli for job in jobs) / WHOLE,
        reproduction=made,
        results=results,
        counts=dict(counts),
        notes=[*rows.notes, *_notes(results)],
    )


def _usable_jobs(
    jobs: Sequence[FleetJob], nodes: Sequence[NodeRow], counts: Counter[str]
) -> list[FleetJob]:
    """Jobs with GPUs that an empty cluster can hold."""
    empty, usable = Cluster(nodes, "whole"), []
    for job in jobs:
        if job.gpus < 1:
            counts["jobs without GPUs"] += 1
        elif not empty.can_ever_hold(empty.demand_of(job)):
            counts["jobs that no node can hold"] += 1
        else:
            usable.append(job)
    if not usable:
        raise InputError("No job of the ledger can be placed.", why=f"{dict(counts)}.")
    return usable


def _reproduce(
    jobs: Sequence[FleetJob], nodes: Sequence[NodeRow], progress: Progress
) -> Reproduction:
    """Find the policy whose simulated mean wait is closest to the recorded one."""
    unknown = Reproduction(
        policy=None, recorded_wait_s=None, simulated_wait_s=None, error=None, why=None
    )
    if not jobs:
        return _replace(unknown, why="no job has the times of its submission, start and end")
    waits = [((job.start_ms or 0) - (job.submit_ms or 0)) / 1e3 for job in jobs]
    recorded = float(np.mean(waits))
    if recorded < LEAST_WAIT_S:
        return _replace(unknown, recorded_wait_s=recorded, why="nobody waited: nothing to repeat")
    shared = any(job.milli < WHOLE for job in jobs)
    tried = {}
    for order, placement in itertools.product(ORDERS, PLACEMENTS):
        policy = Policy(order=order, placement=placement, division="share" if shared else "whole")
        queue = replay_jobs(jobs, nodes, policy, partial(progress, "today's waits"))
        tried[policy.name] = queue.mean_wait_s
    name = min(tried, key=lambda each: abs(tried[each] - recorded))
    error = abs(tried[name] - recorded) / recorded
    why = None
    if error > MOST_ERROR:
        why = (
            f"the closest policy, {name}, misses the mean wait by {error:.0%}: something else "
            "decides here, such as priorities, limits of users or reservations"
        )
    return Reproduction(
        policy=name,
        recorded_wait_s=recorded,
        simulated_wait_s=tried[name],
        error=error,
        why=why,
    )


def _replace(known: Reproduction, **changes: object) -> Reproduction:
    fields = {name: getattr(known, name) for name in known.__struct_fields__}
    return Reproduction(**{**fields, **changes})


def _bound_slowdown(
    jobs: Sequence[FleetJob], policy: Policy, activity: Mapping[str, float]
) -> tuple[float, float] | None:
    """The least and most factor by which jobs that share a device take longer: none where their
    kernels never meet, and the sum of their shares of multiprocessors where they always do. None
    where nothing was measured, or no device is shared."""
    sharing = [job for job in jobs if job.milli < WHOLE]
    known = [activity[job.job] for job in sharing if job.job in activity]
    if policy.division == "whole" or len(known) < 2 or len(known) < len(sharing):
        return None
    together = WHOLE / float(np.mean([job.milli for job in sharing]))
    return 1.0, max(1.0, together * float(np.mean(known)))


def _notes(results: Sequence[PolicyResult]) -> list[str]:
    notes = ["run times are those that were recorded"]
    if any(one.policy.division != "whole" and one.slowdown is None for one in results):
        notes.append(
            "how much jobs that share a device slow each other is not known here, and none is "
            "assumed: run a pair of them on one device, or name a meter with the activity of "
            "multiprocessors"
        )
    return notes
