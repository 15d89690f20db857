"""Which recordings are which ranks of one job, and what must be said about them together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.job import Job
from whyidle.model.diagnosis import Attribution, RankRow
from whyidle.model.timeline import Timeline

SHARED = 0.5
"""a rank that shares less than this part of its kernel time by name with any other runs another
program, or another stage of it"""
WORTH = 0.01
"""communication under this share of the step needs no words about who waits for whom"""
NAMED = 8
"""so many missing ranks are named one by one"""
WHOLE = 0.5
"""a window with fewer events than this part of the largest was cut short"""


def assign_ranks(timelines: Sequence[Timeline]) -> tuple[list[Timeline], list[str]]:
    """Give every recording of one job a rank of its own, in order.

    Recordings that claim the same rank, or none, are ranks of one job only where they were made at
    the same time; they are numbered in the order of their file names. Of windows that follow one
    another, as a repeated schedule writes them, one is kept: no rank waits for its own past.

    Returns:
        The recordings sorted by rank, and what was assumed.
    """
    if _have_distinct_ranks(timelines):
        return sorted(timelines, key=lambda timeline: timeline.rank or 0), []
    kept, left_out = _one_window(timelines)
    if _have_distinct_ranks(kept):
        return sorted(kept, key=lambda timeline: timeline.rank or 0), left_out
    numbered, assumed = _number_ranks(kept)
    return numbered, [*left_out, *assumed]


def _have_distinct_ranks(timelines: Sequence[Timeline]) -> bool:
    """Whether every recording tells a rank of its own, or is alone."""
    claims = Counter(timeline.rank for timeline in timelines)
    return len(timelines) < 2 or (None not in claims and max(claims.values()) == 1)


def _one_window(timelines: Sequence[Timeline]) -> tuple[list[Timeline], list[str]]:
    """Of recordings made one after the other, the last ones side by side; not one that holds less
    than half as much as another, as the end of a training cuts its last window short."""
    windows: list[list[Timeline]] = []
    until = None
    for start, end, timeline in sorted(map(_recorded_span, timelines), key=lambda span: span[:2]):
        if until is None or start >= until:
            windows.append([])
        until = end if until is None else max(until, end)
        windows[-1].append(timeline)
    if len(windows) < 2:
        return list(timelines), []
    sizes = [sum(timeline.source.events for timeline in window) for window in windows]
    index = max(i for i, size in enumerate(sizes) if size >= max(sizes) * WHOLE)
    names = ", ".join(timeline.source.display_path for timeline in windows[index][:NAMED])
    note = (
        f"the recordings are of {len(windows)} windows, one after the other, not of ranks side by "
        f"side: only {names} is judged; pass another by itself"
    )
    return windows[index], [note]


def _recorded_span(timeline: Timeline) -> tuple[int, int, Timeline]:
    """When it was recorded, ns."""
    starts = [events.start.min() for events in (timeline.host, timeline.device) if len(events)]
    ends = [events.end.max() for events in (timeline.host, timeline.device) if len(events)]
    base = timeline.base_ns
    return base + int(min(starts, default=0)), base + int(max(ends, default=0)), timeline


def _number_ranks(timelines: Sequence[Timeline]) -> tuple[list[Timeline], list[str]]:
    claims = Counter(timeline.rank for timeline in timelines)
    named = sorted(timelines, key=lambda timeline: _natural_key(timeline.source.path))
    twice = [f"{n} recordings claim rank {r}" for r, n in claims.items() if n > 1 and r is not None]
    why = twice or ["not every recording tells its rank"]
    notes = [f"{'; '.join(why)}: they are numbered in the order of their file names"]
    return [replace(timeline, rank=i) for i, timeline in enumerate(named)], notes


def _natural_key(path: str) -> list[tuple[int, str]]:
    """Sorts rank 10 after rank 2."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path)]


def notes_on(job: Job) -> list[str]:
    """What the recordings together leave open: missing ranks, other jobs, clocks."""
    if len(job.ranks) < 2:
        return _note_single_rank(job.ranks[0])
    told = [
        *_note_world_sizes(job),
        *_note_unrelated_ranks(job),
        *_note_step_counts(job),
        *job.meetings.notes,
        *_note_clocks(job),
    ]
    return [*told, *_note_crowded_ranks(job)]


def _note_crowded_ranks(job: Job) -> list[str]:
    """Ranks that take turns waiting for a core: nobody's work, nobody's device."""
    late = job.imbalance.late_rank
    if late is None or late.slow_device:
        return []
    share = late.contended * job.imbalance.loss_interval[1]
    if share < WORTH:
        return []
    return [
        f"ranks wait {share:.0%} of the step for others that wait for a CPU core themselves: more "
        "wants to run on this machine than it has cores"
    ]


def _note_single_rank(facts: Facts) -> list[str]:
    """One rank of several does not tell transfer from waiting."""
    world, share = facts.timeline.world_size or 1, facts.bucket_share("communication")
    if world < 2 or share < WORTH:
        return []
    which = f"rank {facts.rank}" if facts.rank is not None else "one rank"
    return [
        f"only {which} of {world} was recorded: its {share:.0%} in collectives is transfer and "
        "waiting for later ranks together, and one rank alone cannot tell them apart; record every "
        "rank and pass the whole folder"
    ]


def _note_world_sizes(job: Job) -> list[str]:
    worlds = {f.timeline.world_size for f in job.ranks if f.timeline.world_size is not None}
    if len(worlds) > 1:
        sizes = ", ".join(str(size) for size in sorted(worlds))
        return [f"the recordings are of jobs of different world sizes ({sizes}): do not mix jobs"]
    if not worlds:
        return []
    world = worlds.pop()
    if len(job.ranks) > world:
        return [
            f"{len(job.ranks)} recordings of a job of {world}: several windows or jobs are mixed"
        ]
    missing = sorted(set(range(world)) - {f.rank for f in job.ranks if f.rank is not None})
    if not missing:
        return []
    return [
        f"{len(missing)} of {world} ranks are missing ({_format_ranks(missing)}); waiting for them "
        "counts as transfer"
    ]


def _format_ranks(ranks: list[int]) -> str:
    """``3-6, 9``."""
    edges = [i for i, rank in enumerate(ranks) if i == 0 or rank != ranks[i - 1] + 1]
    runs = [ranks[a:b] for a, b in zip(edges, [*edges[1:], len(ranks)], strict=True)]
    words = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ", ".join(words[:NAMED]) + (", ..." if len(words) > NAMED else "")


def _note_unrelated_ranks(job: Job) -> list[str]:
    """Ranks whose kernels are not those of any other."""
    used = [_kernel_share(facts) for facts in job.ranks]
    notes = []
    for index, own in enumerate(used):
        others = [each for i, each in enumerate(used) if i != index and each]
        if not own or not others:
            continue
        shared = max(sum(min(own[n], each.get(n, 0.0)) for n in own) for each in others)
        if shared < SHARED:
            notes.append(
                f"rank {job.ranks[index].rank} runs other kernels than the rest ({shared:.0%} of "
                "its time in common): another job, or another pipeline stage"
            )
    return notes


def _kernel_share(facts: Facts) -> dict[str, float]:
    """Share of the kernel time by name, without collectives."""
    rows = facts.kernels[facts.group[facts.kernels] != "communication"]
    names, index = np.unique(facts.device.name[rows], return_inverse=True)
    totals = np.bincount(index, weights=facts.durations_s(rows), minlength=len(names))
    whole = float(totals.sum()) or 1.0
    return {facts.timeline.names[i]: float(t) / whole for i, t in zip(names, totals, strict=True)}


def _note_step_counts(job: Job) -> list[str]:
    counts = [len(facts.steps) if facts.steps.found_by else 0 for facts in job.ranks]
    if len(set(counts)) == 1:
        return []
    return [
        f"ranks recorded different numbers of steps ({min(counts)} to {max(counts)}); collectives "
        "of the common ones are compared"
    ]


def _note_clocks(job: Job) -> list[str]:
    """Whether it can be told who arrives when."""
    share = job.attribution["communication"]
    if share < WORTH:
        return []
    met = job.meetings
    if not len(met):
        return ["no collective of one rank was found on another, so nobody can tell who waits"]
    error = met.clock_error_s
    if error is None:
        return ["too few collectives were recorded to align the clocks of the ranks"]
    if not met.is_decided.any():
        return [
            f"the clocks of the ranks agree to {error * 1e6:.3g} us, and ranks arrive at "
            "collectives closer together than that: nobody can tell who is late"
        ]
    return []


def rank_rows(job: Job) -> list[RankRow]:
    """A row for every rank."""
    several = len(job.ranks) > 1 and len(job.meetings) > 0
    late = job.imbalance.lateness_s if several else None
    rows = []
    for index, facts in enumerate(job.ranks):
        rows.append(
            RankRow(
                rank=facts.rank,
                source=facts.timeline.source.display_path,
                step_s=facts.step_s if facts.steps.found_by else None,
                attribution=Attribution(**facts.attribution),
                lateness_s=None if late is None else float(late[index]),
                waiting=float(job.imbalance.waiting[index]) if several else None,
                last_ratio=None if late is None else float(job.imbalance.last_ratio[index]),
                steps=[Attribution(**step) for step in facts.per_step()],
            )
        )
    return rows
