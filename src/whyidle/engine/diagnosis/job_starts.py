"""Which processes of a command trained together, and which of its jobs is another's new start."""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from whyidle.model.process_facts import ProcessFacts
from whyidle.model.roles import Role
from whyidle.model.timeline import Timeline


@dataclass(frozen=True, slots=True)
class JobStart:
    """One job: the ranks of the start that trained longest, and those of the others, in order."""

    ranks: list[Timeline]
    others: list[list[Timeline]] = field(default_factory=list)


def jobs_of(timelines: Sequence[Timeline]) -> list[JobStart]:
    """Processes that are ranks of one job belong together; all others are jobs of their own. In
    the order in which they began to train. What an elastic launcher starts anew is one job."""
    jobs: dict[Hashable, list[Timeline]] = {}
    for timeline in sorted(timelines, key=_start_time):
        key = _job_key(timeline)
        turn = 0
        while any(t.rank == timeline.rank for t in jobs.get((key, turn), ())):
            turn += 1  # this rank is there already: another job of the same parent
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
    """Whether these ranks are another start of the same job."""
    told, first = ranks[0].process, starts[0][0].process
    run, count = told.launch.get(RUN), told.launch.get(RESTARTS)
    same = (told.ppid, run) == (first.ppid, first.launch.get(RUN))
    counts = [each[0].process.launch.get(RESTARTS) for each in starts]
    return count is not None and same and count not in counts


RUN = "TORCHELASTIC_RUN_ID"
RESTARTS = "TORCHELASTIC_RESTART_COUNT"


def start_of(process: ProcessFacts) -> Hashable:
    """Which start of which launcher a process belongs to, by what it said of itself."""
    return process.ppid, process.launch.get(RESTARTS)


def _merge_starts(starts: list[list[Timeline]]) -> JobStart:
    longest = max(range(len(starts)), key=lambda index: (_training_length(starts[index]), index))
    return JobStart(starts[longest], [ranks for i, ranks in enumerate(starts) if i != longest])


def name_of(job: JobStart) -> str:
    """What tells a job from the others of its command: ``train.py --lr 1 (process 12)``."""
    words = shlex.join(job.ranks[0].process.argv or ["python"])
    each = [str(rank.process.pid) for rank in job.ranks if rank.process.pid is not None]
    return f"{words} (process{'es' if len(each) > 1 else ''} {', '.join(each)})" if each else words


def steps_of(timeline: Timeline) -> int:
    """How many steps of optimizers were recorded."""
    return len(timeline.rows_of(Role.OPTIMIZER))


def _training_length(ranks: list[Timeline]) -> int:
    return max(steps_of(timeline) for timeline in ranks)


def _start_time(timeline: Timeline) -> int:
    return timeline.process.first_step or timeline.base_ns


def _job_key(timeline: Timeline) -> Hashable:
    if timeline.rank is None or (timeline.world_size or 1) < 2:
        return "process", timeline.source.path
    port = timeline.process.environment.get("MASTER_PORT")
    return "ranks", port, start_of(timeline.process)
