"""Looks at a machine: its GPUs, the jobs on them, whose they are, and why a GPU waits."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Set
from datetime import datetime, timezone
from pathlib import Path

from whyidle import catalog
from whyidle.machine.watch.job_groups import JobGroup, group_jobs
from whyidle.machine.watch.job_observation import JobObservation
from whyidle.machine.watch.job_state import judge_gpu, judge_job, suspect
from whyidle.machine.watch.live_news import FollowedJob
from whyidle.machine.watch.process_table import ProcessTable
from whyidle.machine.watch.watched_gpus import StateClock, WatchedGpus
from whyidle.model.documents.watch_document import (
    Tenant,
    WatchedGpu,
    WatchedHost,
    WatchedJob,
    WatchedMachine,
)
from whyidle.model.live.job_news import JobNews
from whyidle.model.live.telemetry import Reading, Source, Target
from whyidle.model.live.tenancy import Reservation
from whyidle.model.redaction import hide_secrets


class MachineWatch:
    """Looks at this machine; each ``look`` returns the document of one. ``lasting``: looks go on
    for longer than launchers need to answer. ``job``: looks at one command of ``whyidle run`` only,
    at its first process and with the news that its launcher has itself."""

    def __init__(
        self,
        root: Path = Path("/"),
        sources: Mapping[str, Source] | None = None,
        *,
        lasting: bool = True,
        job: tuple[int, Callable[[], JobNews]] | None = None,
    ) -> None:
        self._root, self._lasting = root, lasting
        self._table = ProcessTable(root, job[0] if job else None)
        self._own_news = job[1] if job else None
        self._gpus = WatchedGpus(root, sources)
        self._host = catalog.plugin_module("sources", "host").open(Target(root=root))
        self._host_before: tuple[float, Reading] | None = None
        self._jobs: dict[str, JobObservation] = {}
        self._recorded: dict[str, FollowedJob] = {}
        self._clock = StateClock()
        self._reserved: list[Reservation] = []
        self._ask_s = 0.0

    def look(self) -> WatchedMachine:
        """Look once. The first look knows no rates."""
        now = time.monotonic()
        window = now - self._host_before[0] if self._host_before else 0.0
        self._gpus.look(now)
        self._table.refresh()
        reserved = self._read_reservations(now) if self._own_news is None else {}
        holders = {pid for card in self._gpus.cards.values() for pid in card.holders}
        certain = {pid for pid in holders if self._table.is_driver_pid(pid)}
        groups = group_jobs(self._table, certain)
        jobs = [self._describe_job(group) for group in groups.values()]
        if self._own_news is None:
            jobs += self._strangers(holders - certain) + _bare_reservations(reserved, jobs)
        gpus = [self._describe_gpu(subject, jobs, reserved) for subject in self._gpus.cards]
        self._forget(groups.keys(), {*self._gpus.cards, *(job.key for job in jobs)})
        return WatchedMachine(
            time=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            window_s=window,
            host=self._describe_host(now),
            driver=self._gpus.facts.get("driver"),
            gpus=sorted(gpus, key=_by_place),
            absent=self._gpus.absent,
            jobs=jobs,
            notes=[],
        )

    def _describe_host(self, now: float) -> WatchedHost:
        reading: Reading = self._host.read()
        before, self._host_before = self._host_before, (now, reading)
        total = reading.get("machine_memory_bytes")
        free = reading.get("machine_memory_available_bytes")
        return WatchedHost(
            name=platform.node(),
            cores=os.cpu_count(),
            cores_used=_cores_between(before, (now, reading)),
            memory_bytes=None if total is None else int(total),
            memory_used_bytes=None if total is None or free is None else int(total - free),
            pressure_cpu=reading.get("pressure_cpu_some_ratio"),
            pressure_io=reading.get("pressure_io_some_ratio"),
            pressure_memory=reading.get("pressure_memory_some_ratio"),
        )

    def _describe_job(self, group: JobGroup) -> WatchedJob:
        root = self._table.processes[group.root]
        seen = self._jobs.setdefault(group.key, JobObservation(self._root))
        roots = _roots_of(group, self._table)
        seen.look(roots, group.pids)
        cards = {
            subject: card
            for subject, card in self._gpus.cards.items()
            if card.holders.keys() & group.pids
        }
        known = [card.holders.get(pid) for card in cards.values() for pid in group.pids]
        held = sum(one or 0 for one in known) if cards else None
        news = self._read_news(group)
        steps = news.steps if news is not None else None
        stopped = steps.last_step_s if steps and steps.count and not steps.phase else None
        age = self._table.age_s(group.root)
        # a GPU without a kernel is judged by itself, and would only blur the figures of the others
        histories = [card.history for card in cards.values()]
        used = [one for one in histories if one.highest("busy_ratio") != 0]
        view = seen.view(used or histories, held, age, stopped)
        suspected = suspect(view)
        state, reason = judge_job(view, news, suspected)
        unread = [] if root.environ is not None else ["environment: the job is another user's"]
        return WatchedJob(
            key=group.key,
            pid=group.root,
            pids=sorted(group.pids),
            user=root.user,
            tenant=group.tenant,
            command=hide_secrets(root.command)[:400],
            age_s=age,
            gpus=[self._gpus.name_of(subject) for subject in cards],
            gpu_memory_bytes=held,
            cores_used=seen.cores_used,
            memory_bytes=seen.memory_bytes,
            state=state,
            since_s=self._clock.since_s(group.key, state),
            steps=steps,
            reason=reason,
            suspicions=[one for _, one in suspected if one != reason],
            unread=unread,
        )

    def _read_news(self, group: JobGroup) -> JobNews | None:
        if group.recording is None or not os.access(group.recording, os.R_OK | os.X_OK):
            return None
        if self._own_news is not None:
            return self._own_news()
        known = self._recorded.get(group.key)
        if known is None:
            known = FollowedJob(group.recording, lasting=self._lasting)
            self._recorded[group.key] = known
        return known.look()

    def _strangers(self, holders: set[int]) -> list[WatchedJob]:
        """Holders that are not among the processes that can be seen."""
        cards = self._gpus.cards.items()
        return [
            _unseen_job(
                pid, [self._gpus.name_of(name) for name, card in cards if pid in card.holders]
            )
            for pid in sorted(holders)
        ]

    def _describe_gpu(
        self, subject: str, jobs: list[WatchedJob], reserved: Mapping[str, Reservation]
    ) -> WatchedGpu:
        name = self._gpus.name_of(subject)
        own = [job for job in jobs if name in job.gpus]
        working = [job for job in own if job.pids]
        reservation = reserved.get(name)
        by = reservation.holder if reservation else None
        others = {other for job in working for other in job.gpus} - {name}
        works_elsewhere = any(
            card.history.highest("busy_ratio")
            for other, card in self._gpus.cards.items()
            if self._gpus.name_of(other) in others
        )
        state, reason = judge_gpu(
            self._gpus.cards[subject].history, working, by, works_elsewhere=works_elsewhere
        )
        if self._gpus.is_lost(subject):
            state, reason = "lost", None
        keys = [job.key for job in own]
        since = self._clock.since_s(subject, state)
        return self._gpus.describe(subject, state, since, keys, reason)

    def _read_reservations(self, now: float) -> dict[str, Reservation]:
        """By the GPU's name. Slurm counts devices by minor number, as NVML's order does on all but
        exotic machines; the number is used only here, where there is no process to ask."""
        if now >= self._ask_s:
            # Slurm's controller serves a whole cluster
            self._ask_s = now + 30.0
            self._reserved = catalog.plugin_module("tenants", "slurm").reserve()
        places = {f"gpu{n}": one for one in self._reserved for n in one.ordinals}
        return {self._gpus.name_of(n): places[n] for n in self._gpus.cards if n in places}

    def _forget(self, groups: Set[str], keys: set[str]) -> None:
        for key in self._jobs.keys() - groups:
            self._jobs.pop(key).close()
            self._recorded.pop(key, None)
        self._clock.forget_others(keys)

    def close(self) -> None:
        """Close every source."""
        for seen in self._jobs.values():
            seen.close()
        self._gpus.close()
        self._host.close()


def _roots_of(group: JobGroup, table: ProcessTable) -> list[int]:
    """The processes whose descendants make up the job: one in most, one a task under Slurm."""
    if group.recording is not None or group.tenant.kind not in ("slurm", "kubernetes"):
        return [group.root]
    inside = {group.root, *group.pids}
    return sorted(
        pid for pid in inside if not inside & {one.pid for one in table.ancestors(pid)} - {pid}
    )


def _unseen_job(pid: int, gpus: list[str]) -> WatchedJob:
    return WatchedJob(
        key=f"pid:{pid}", pid=pid, pids=[pid], user=None, command=None, age_s=None, gpus=gpus,
        tenant=Tenant(kind="plain", job=None, labels={}), gpu_memory_bytes=None, cores_used=None,
        memory_bytes=None, state="active", since_s=0.0, steps=None, reason=None, suspicions=[],
        unread=["process: it has ended, or belongs to another PID namespace"],
    )  # fmt: skip


def _bare_reservations(
    reserved: Mapping[str, Reservation], jobs: list[WatchedJob]
) -> list[WatchedJob]:
    """Jobs that Slurm runs and that have no process on a GPU."""
    known = {job.key for job in jobs}
    bare = {f"slurm:{one.job}": one for one in reserved.values()}
    return [
        WatchedJob(
            key=key, pid=0, pids=[], user=one.user, command=None, age_s=None,
            tenant=Tenant(kind="slurm", job=one.job, labels=dict(one.labels)),
            gpus=[name for name, held in reserved.items() if held == one],
            gpu_memory_bytes=None, cores_used=None, memory_bytes=None, state="idle-reserved",
            since_s=0.0, steps=None, reason=None, suspicions=[], unread=[],
        )
        for key, one in bare.items() if key not in known
    ]  # fmt: skip


def _cores_between(
    before: tuple[float, Reading] | None, after: tuple[float, Reading]
) -> float | None:
    if before is None or after[0] <= before[0]:
        return None
    grown = 0.0
    for name in ("machine_cpu_user_s", "machine_cpu_system_s"):
        first, last = before[1].get(name), after[1].get(name)
        if first is None or last is None:
            return None
        grown += last - first
    return max(0.0, grown) / (after[0] - before[0])


def _by_place(gpu: WatchedGpu) -> list[int]:
    return [int("".join(filter(str.isdigit, part)) or 0) for part in gpu.gpu.split(".")]
