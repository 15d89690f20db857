"""Replays the jobs of a ledger on a simulated cluster, in time, with SimPy's clock."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from whyidle.engine.fleet.placement import Cluster, Demand, Slot
from whyidle.errors import MissingExtraError
from whyidle.model.fleet_rows import FleetJob, NodeRow
from whyidle.model.fleet_what_if import Pile, Policy, Queue

if TYPE_CHECKING:
    import simpy

TRIED: Final = 100
"""waiting jobs behind the first one that backfilling looks at (Slurm: bf_max_job_test, 500)"""


@dataclass(slots=True, eq=False)
class Waiting:
    """One job of the replay; times are s since the first one came."""

    job: FleetJob
    demand: Demand
    submit: float
    length: float
    limit: float
    """when backfilling expects it to end, s after its start"""
    wait: float = 0.0
    slots: list[Slot] = field(default_factory=list)
    started: float = -1.0


def pile_jobs(jobs: Sequence[FleetJob], nodes: Sequence[NodeRow], policy: Policy) -> Pile:
    """Put all jobs on the cluster at once, in order of arrival."""
    cluster = Cluster(nodes, policy.division)
    placed, left, left_gpus = 0, 0, 0.0
    for job in sorted(jobs, key=lambda one: one.submit_ms or one.start_ms or 0):
        if cluster.place(cluster.demand_of(job), policy.placement) is not None:
            placed += 1
        else:
            left += 1
            left_gpus += job.gpus * (1.0 if policy.division == "whole" else job.milli / 1000)
    return Pile(
        placed=placed,
        left=left,
        devices=cluster.used_devices(),
        stranded=cluster.stranded_room(),
        left_gpus=left_gpus,
    )


def replay_jobs(
    jobs: Sequence[FleetJob],
    nodes: Sequence[NodeRow],
    policy: Policy,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Queue:
    """Let the jobs come when they came and run as long as they ran.

    Args:
        jobs: with submit, start and end.
        nodes: the cluster.
        policy: how it is scheduled.
        progress: called with the number of ended jobs, and of all.

    Raises:
        MissingExtraError: SimPy is not installed.
    """
    try:
        import simpy  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise MissingExtraError(
            "Replaying jobs needs SimPy.", hint="pip install 'whyidle[fleet]'"
        ) from error
    return _Replay(simpy.Environment(), jobs, Cluster(nodes, policy.division), policy).run(progress)


class _Replay:
    def __init__(
        self, env: simpy.Environment, jobs: Sequence[FleetJob], cluster: Cluster, policy: Policy
    ) -> None:
        self.env, self.cluster, self.policy = env, cluster, policy
        first = min((job.submit_ms or 0 for job in jobs), default=0)
        self.jobs = sorted((self._prepare(job, first) for job in jobs), key=lambda one: one.submit)
        self.queue: list[Waiting] = []
        self.running: set[Waiting] = set()
        self.ended = 0
        self.blocked_s, self.blocked_since = 0.0, -1.0
        self.device_s = 0.0

    def _prepare(self, job: FleetJob, first: int) -> Waiting:
        length = ((job.end_ms or 0) - (job.start_ms or 0)) / 1e3
        limit = max(float(job.limit_s or length), length)
        submit = ((job.submit_ms or 0) - first) / 1e3
        return Waiting(job, self.cluster.demand_of(job), submit, length, limit)

    def run(self, progress: Callable[[int, int], None]) -> Queue:
        """Run all jobs to their ends."""
        self.env.process(self._arrivals())
        step = max(len(self.jobs) // 100, 1)
        while self.ended < len(self.jobs):
            before = self.ended
            self.env.step()
            if self.ended > before and self.ended % step == 0:
                progress(self.ended, len(self.jobs))
        return self._summarize()

    def _arrivals(self) -> Generator[simpy.Event, Any, None]:
        for index, one in enumerate(self.jobs):
            if one.submit > self.env.now:
                yield self.env.timeout(one.submit - self.env.now)
            self.queue.append(one)
            following = self.jobs[index + 1 : index + 2]
            if not following or following[0].submit > self.env.now:
                self._schedule()

    def _execute(self, one: Waiting) -> Generator[simpy.Event, Any, None]:
        yield self.env.timeout(one.length)
        self.cluster.release(one.slots, one.demand)
        self.running.discard(one)
        self.ended += 1
        self._schedule()

    def _schedule(self) -> None:
        self._count_blocked()
        while self.queue and self._try_start(self.queue[0]):
            self.queue.pop(0)
        if len(self.queue) > 1 and self.policy.order == "backfill":
            self._backfill()
        if self.queue:
            head = self.queue[0].demand
            if self.cluster.free_devices(head) >= head.devices * head.parts:
                self.blocked_since = self.env.now

    def _count_blocked(self) -> None:
        if self.blocked_since >= 0.0:
            self.blocked_s += self.env.now - self.blocked_since
            self.blocked_since = -1.0

    def _try_start(self, one: Waiting) -> bool:
        if not self.policy.gang and one.demand.parts > 1:
            self._hold_part(one)
            return self._begin_complete(one)
        slots = self.cluster.place(one.demand, self.policy.placement)
        if slots is None:
            return False
        one.slots += slots
        self._begin(one)
        return True

    def _hold_part(self, one: Waiting) -> None:
        """Without gang scheduling a job keeps each of its nodes as soon as it is free."""
        single = Demand(one.demand.devices, 1, one.demand.room, one.demand.cpus, one.demand.types)
        while len(one.slots) < one.demand.parts:
            slots = self.cluster.place(single, self.policy.placement)
            if slots is None:
                return
            one.slots += slots

    def _begin_complete(self, one: Waiting) -> bool:
        if len(one.slots) < one.demand.parts:
            return False
        self._begin(one)
        return True

    def _begin(self, one: Waiting) -> None:
        one.started = self.env.now
        one.wait = self.env.now - one.submit
        self.device_s += one.length * one.demand.devices * one.demand.parts
        self.running.add(one)
        self.env.process(self._execute(one))

    def _backfill(self) -> None:
        """Start later jobs that end before the first one can begin (EASY backfilling: Lifka, "The
        ANL/IBM SP Scheduling System", 1995)."""
        free_s = self._expected_start(self.queue[0]) - self.env.now
        for one in self.queue[1 : 1 + TRIED]:
            if one.limit <= free_s:
                slots = self.cluster.place(one.demand, self.policy.placement)
                if slots is not None:
                    one.slots += slots
                    self._begin(one)
        self.queue = [one for one in self.queue if one.started < 0.0]

    def _expected_start(self, head: Waiting) -> float:
        cluster = self.cluster.copy()
        for one in sorted(self.running, key=lambda each: each.started + each.limit):
            cluster.release(one.slots, one.demand)
            if cluster.place(head.demand, self.policy.placement) is not None:
                return max(one.started + one.limit, float(self.env.now))
        return float("inf")

    def _summarize(self) -> Queue:
        waits = np.array([one.wait for one in self.jobs])
        asked = np.array([one.job.gpus * one.job.milli / 1000 for one in self.jobs])
        end = max((one.started + one.length for one in self.jobs), default=0.0)
        devices = int(self.cluster.exists.sum())
        return Queue(
            jobs=len(self.jobs),
            mean_wait_s=float(waits.mean()),
            p95_wait_s=float(np.percentile(waits, 95)),
            waited_gpu_hours=float((waits * asked).sum()) / 3600.0,
            end_s=float(end),
            allocated=min(self.device_s / max(devices * end, 1e-9), 1.0),
            blocked=self.blocked_s / max(float(end), 1e-9),
        )
