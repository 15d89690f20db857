"""Groups the processes of a command into jobs, and recognises restarts of an elastic launcher."""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from whyidle.model.process_facts import ProcessFacts
from whyidle.model.redaction import redact_command
from whyidle.model.roles import Role
from whyidle.model.timeline import Timeline


@dataclass(frozen=True, slots=True)
class JobStart:
    """One job: the ranks of its longest start, and of its other starts in order."""

    ranks: list[Timeline]
    others: list[list[Timeline]] = field(default_factory=list)


def jobs_of(timelines: Sequence[Timeline]) -> list[JobStart]:
    """Group processes into jobs, in order of their start; restarts by a launcher are one job."""
    jobs: dict[Hashable, list[Timeline]] = {}
    for timeline in sorted(timelines, key=lambda t: t.process.first_step or t.base_ns):
        key = _job_key(timeline)
        turn = 0
        while any(t.rank == timeline.rank for t in jobs.get((key, turn), ())):
            turn += 1  # the rank is taken: another job of the same parent process
        jobs.setdefault((key, turn), []).append(timeline)
    starts: list[list[list[Timeline]]] = []
    for found in jobs.values():
        ranks = sorted(found, key=lambda t: (t.rank is None, t.rank))
        before = [each for each in starts if _is_restart(each, ranks)]
        if before:
            before[-1].append(ranks)
        else:
            starts.append([ranks])
    return [_merge_starts(each) for each in starts]


def _is_restart(starts: list[list[Timeline]], ranks: list[Timeline]) -> bool:
    process, first = ranks[0].process, starts[0][0].process
    run, count = process.launch.get(RUN), process.launch.get(RESTARTS)
    same = (process.ppid, run) == (first.ppid, first.launch.get(RUN))
    counts = [each[0].process.launch.get(RESTARTS) for each in starts]
    return count is not None and same and count not in counts


RUN = "TORCHELASTIC_RUN_ID"
RESTARTS = "TORCHELASTIC_RESTART_COUNT"


def start_of(process: ProcessFacts) -> Hashable:
    """Key of the launcher start that a process belongs to."""
    return process.ppid, process.launch.get(RESTARTS)


def _merge_starts(starts: list[list[Timeline]]) -> JobStart:
    longest = max(range(len(starts)), key=lambda i: (max(map(steps_of, starts[i])), i))
    return JobStart(starts[longest], [ranks for i, ranks in enumerate(starts) if i != longest])


def name_of(job: JobStart) -> str:
    """Name that distinguishes a job of a command: ``train.py --lr 1 (process 12)``."""
    words = shlex.join(redact_command(job.ranks[0].process.argv or ["python"]))
    pids = [str(rank.process.pid) for rank in job.ranks if rank.process.pid is not None]
    return f"{words} (process{'es' if len(pids) > 1 else ''} {', '.join(pids)})" if pids else words


def steps_of(timeline: Timeline) -> int:
    """Number of recorded optimizer steps."""
    return len(timeline.rows_of(Role.OPTIMIZER))


def _job_key(timeline: Timeline) -> Hashable:
    if timeline.rank is None or (timeline.world_size or 1) < 2:
        return "process", timeline.source.path
    port = timeline.process.environment.get("MASTER_PORT")
    return "ranks", port, start_of(timeline.process)
